package cluster

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"

	"github.com/informd/informd/test/cluster/proc"
)

// maxAnswer bounds what is read of an answer that is known to be small.
const maxAnswer = 64 << 10

// plainHTTP keeps no connections: a connection to a process that was killed or
// frozen meanwhile would only get in the way.
func plainHTTP() *http.Client {
	return &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
}

func (c *Cluster) prepareEtcd() error {
	client, err := c.newPort()
	if err != nil {
		return err
	}
	peer, err := c.newPort()
	if err != nil {
		return err
	}
	c.etcdURL, c.etcdPeerURL = "http://"+client.Address(), "http://"+peer.Address()
	c.etcd = proc.New(proc.Spec{
		Name: "etcd",
		Path: c.options.Binary,
		Args: []string{
			"etcd",
			"--data-dir=" + c.etcdDir(),
			"--client-url=" + c.etcdURL,
			"--peer-url=" + c.etcdPeerURL,
			"--quota-backend-bytes=" + strconv.FormatInt(c.options.EtcdQuotaBytes, 10),
		},
		Log:   c.dir.Join("etcd.log"),
		Ready: func(ctx context.Context) error { return get(ctx, plainHTTP(), c.etcdURL+"/readyz", "") },
	})
	return nil
}

func (c *Cluster) etcdDir() string { return c.dir.Join("etcd") }

// Revision returns etcd's head revision. Kubernetes' resourceVersions are such
// revisions.
func (c *Cluster) Revision(ctx context.Context) (int64, error) {
	var answer struct {
		Header struct {
			Revision string `json:"revision"` // the gateway writes int64 as strings
		} `json:"header"`
	}
	// Any read has the revision in its header; this key does not exist.
	key := map[string]any{"key": encode("\x00")}
	if err := c.callEtcd(ctx, "/v3/kv/range", key, &answer); err != nil {
		return 0, fmt.Errorf("read etcd's revision: %w", err)
	}
	return strconv.ParseInt(answer.Header.Revision, 10, 64)
}

// Compact compacts etcd to its head revision R and returns R. When it returns, etcd
// refuses reads of revisions below R, which the API answers with 410.
//
// What an API server holds in memory it goes on serving: watches from its watch
// cache, and Exact lists of whole collections from snapshots of that cache. It
// drops the snapshots within 15 seconds, when it notices the compaction; lists by
// name (fieldSelector metadata.name) always go to etcd. Options.NoListSnapshots
// sends all Exact lists there.
func (c *Cluster) Compact(ctx context.Context) (int64, error) {
	revision, err := c.Revision(ctx)
	if err != nil {
		return 0, err
	}
	text := strconv.FormatInt(revision, 10)
	// The API servers watch this key, which their own compactor writes, to learn
	// of compactions.
	mark := map[string]any{"key": encode("compact_rev_key"), "value": encode(text)}
	if err := c.callEtcd(ctx, "/v3/kv/put", mark, nil); err != nil {
		return 0, fmt.Errorf("announce the compaction of etcd to revision %s: %w", text, err)
	}
	request := map[string]any{"revision": text, "physical": true}
	if err := c.callEtcd(ctx, "/v3/kv/compaction", request, nil); err != nil {
		return 0, fmt.Errorf("compact etcd to revision %s: %w", text, err)
	}
	return revision, nil
}

// Put writes a value to a key of etcd, past the API servers, which keep objects below
// /registry.
func (c *Cluster) Put(ctx context.Context, key, value string) error {
	return c.callEtcd(ctx, "/v3/kv/put", map[string]any{"key": encode(key), "value": encode(value)}, nil)
}

// Delete deletes a key of etcd, past the API servers.
func (c *Cluster) Delete(ctx context.Context, key string) error {
	return c.callEtcd(ctx, "/v3/kv/deleterange", map[string]any{"key": encode(key)}, nil)
}

// encode encodes a key or value for etcd's JSON gateway.
func encode(text string) string { return base64.StdEncoding.EncodeToString([]byte(text)) }

// callEtcd calls etcd's JSON gateway, which spares this package the gRPC client.
func (c *Cluster) callEtcd(ctx context.Context, path string, request, answer any) error {
	body, err := json.Marshal(request)
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.etcdURL+path, bytes.NewReader(body))
	if err != nil {
		return err
	}
	resp, err := plainHTTP().Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if err != nil {
		return err
	}
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s", resp.Status, text)
	}
	if answer == nil {
		return nil
	}
	return json.Unmarshal(text, answer)
}

// get succeeds if the URL answers 200. Otherwise the error has what is wrong
// according to the answer.
func get(ctx context.Context, client *http.Client, url, token string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if err != nil {
		return err
	}
	if resp.StatusCode == http.StatusOK {
		return nil
	}
	return errors.New(resp.Status + ": " + unhealthy(string(text)))
}

// unhealthy picks the failed checks out of a health report: lines with "[-]". An
// answer without such lines it returns whole.
func unhealthy(report string) string {
	var failed []string
	for line := range strings.Lines(report) {
		if strings.HasPrefix(line, "[-]") {
			failed = append(failed, strings.TrimSpace(line))
		}
	}
	if len(failed) == 0 {
		return strings.TrimSpace(report)
	}
	return strings.Join(failed, ", ")
}

package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"

	"github.com/spf13/pflag"

	"github.com/informd/informd/cmd/informd/internal/admin"
	"github.com/informd/informd/cmd/informd/internal/config"
	"github.com/informd/informd/pkg/sink/drivers"
)

// client asks a running informd, through its admin server.
type client struct {
	base string
	http *http.Client // nil is the default one
	// tokenFile has the token for what needs one; empty is none.
	tokenFile string
	// closed is why it does not ask over the socket; nil if it does, or if there is none.
	closed error
}

// newClient finds the admin server of the informd that runs with this config. It takes
// admin.socket where that answers, and else admin.listen; with --admin-listen that alone.
func newClient(ctx context.Context, flags *pflag.FlagSet) (client, error) {
	server, err := config.LoadAdmin(config.Source{Flags: flags, Drivers: drivers.All()})
	if err != nil {
		return client{}, err
	}
	if server.Socket == "" || flags.Changed("admin-listen") && !flags.Changed("admin-socket") {
		return overTCP(server)
	}
	dial := func(ctx context.Context) (net.Conn, error) { return admin.DialSocket(ctx, server.Socket) }
	conn, err := dial(ctx)
	switch {
	case err == nil:
		transport := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) { return dial(ctx) }}
		return client{base: "http://informd", http: &http.Client{Transport: transport}}, conn.Close()
	case server.Listen == "" || flags.Changed("admin-socket"):
		return client{}, notRunning(err)
	}
	c, failed := overTCP(server)
	c.closed = err
	return c, failed
}

func overTCP(server config.Admin) (client, error) {
	if server.Listen == "" {
		return client{}, misused("admin.listen is empty: there is no way to ask the running informd")
	}
	host, port, err := net.SplitHostPort(server.Listen)
	if err != nil {
		return client{}, fmt.Errorf("admin.listen %s: %w", server.Listen, err)
	}
	if ip := net.ParseIP(host); host == "" || ip != nil && ip.IsUnspecified() {
		host = "127.0.0.1"
	}
	files := admin.TLS(server.TLS)
	if !files.Wanted() {
		return client{base: "http://" + net.JoinHostPort(host, port), tokenFile: server.TokenFile}, nil
	}
	encryption, err := files.ClientConfig()
	if err != nil {
		return client{}, err
	}
	// Through no proxy: it is this machine, as a rule.
	transport := &http.Transport{TLSClientConfig: encryption, ForceAttemptHTTP2: true}
	return client{base: "https://" + net.JoinHostPort(host, port), http: &http.Client{Transport: transport}, tokenFile: server.TokenFile}, nil
}

func notRunning(err error) error {
	return fmt.Errorf("ask the running informd: %w (is it running with this config? --admin-listen or --admin-socket name another address)", err)
}

// do sends a request and hands the body of a good answer to read.
func (c client) do(ctx context.Context, method, path string, query url.Values, read func(io.Reader) error) (err error) {
	r, err := http.NewRequestWithContext(ctx, method, c.base+path+"?"+query.Encode(), http.NoBody)
	if err != nil {
		return err
	}
	if c.tokenFile != "" && path != statusPath {
		token, err := admin.ReadToken(c.tokenFile)
		if err != nil {
			return err
		}
		r.Header.Set(admin.Authorization(token))
	}
	answer, err := cmp.Or(c.http, http.DefaultClient).Do(r)
	if err != nil {
		return notRunning(err)
	}
	defer func() { err = errors.Join(err, answer.Body.Close()) }()
	if answer.StatusCode != http.StatusOK {
		const most = 4096
		text, err := io.ReadAll(io.LimitReader(answer.Body, most))
		refused := errors.New(refusal(answer.Status, string(text)))
		if answer.StatusCode == http.StatusForbidden && c.closed != nil {
			refused = fmt.Errorf("%w\nadmin.socket: %w", refused, c.closed)
		}
		return errors.Join(refused, err)
	}
	return read(answer.Body)
}

// refusal is what an answer says that is not a good one, fit for a terminal: names
// in it come from the cluster, and it may be another server that answers.
func refusal(status, text string) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	for i, line := range lines {
		lines[i] = visible(line)
	}
	return cmp.Or(strings.Join(lines, "\n"), status)
}

// post is do for an answer in JSON.
func (c client) post(ctx context.Context, path string, query url.Values, into any) error {
	return c.do(ctx, http.MethodPost, path, query, func(body io.Reader) error { return json.NewDecoder(body).Decode(into) })
}

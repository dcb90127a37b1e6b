package cluster

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"strconv"
)

// RestoreOptions are the flags of etcdutl snapshot restore that etcd documents for
// Kubernetes. The zero value restores at the revision of the snapshot.
type RestoreOptions struct {
	// BumpRevision raises the revision of the restored etcd above that of the
	// snapshot. Restored objects keep their revisions.
	BumpRevision int64
	// MarkCompacted makes the restored etcd refuse all earlier revisions. etcdutl
	// wants it if and only if BumpRevision is above 0.
	MarkCompacted bool
}

// SnapshotEtcd writes a snapshot of the running etcd to a file, as etcdctl snapshot
// save does.
func (c *Cluster) SnapshotEtcd(ctx context.Context, file string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.etcdURL+"/v3/maintenance/snapshot", bytes.NewReader([]byte("{}")))
	if err != nil {
		return err
	}
	resp, err := plainHTTP().Do(req)
	if err != nil {
		return fmt.Errorf("take a snapshot of etcd: %w", err)
	}
	defer resp.Body.Close()
	out, err := os.OpenFile(file, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	if err := errors.Join(copySnapshot(out, resp.Body), out.Close()); err != nil {
		return fmt.Errorf("take a snapshot of etcd: %w", err)
	}
	return nil
}

// copySnapshot decodes the answer of etcd's JSON gateway: one object per part.
func copySnapshot(to io.Writer, from io.Reader) error {
	for decoder := json.NewDecoder(from); ; {
		var part struct {
			Result struct {
				Blob []byte `json:"blob"`
			} `json:"result"`
			Error json.RawMessage `json:"error"`
		}
		if err := decoder.Decode(&part); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		if part.Error != nil {
			return fmt.Errorf("etcd answers %s", part.Error)
		}
		if _, err := to.Write(part.Result.Blob); err != nil {
			return err
		}
	}
}

// RestoreEtcd kills etcd, restores the snapshot with etcdutl and starts etcd on the
// restored data. The API servers stay as they are: stop them before to restore
// below stopped ones. After an error etcd may be down.
func (c *Cluster) RestoreEtcd(ctx context.Context, file string, options RestoreOptions) error {
	restored := c.dir.Join("etcd-restored")
	if err := os.RemoveAll(restored); err != nil {
		return err
	}
	args := []string{
		"etcdutl", "snapshot", "restore", file,
		"--data-dir=" + restored,
		"--initial-cluster=default=" + c.etcdPeerURL,
		"--initial-advertise-peer-urls=" + c.etcdPeerURL,
		"--bump-revision=" + strconv.FormatInt(options.BumpRevision, 10),
		"--mark-compacted=" + strconv.FormatBool(options.MarkCompacted),
	}
	if out, err := exec.CommandContext(ctx, c.options.Binary, args...).CombinedOutput(); err != nil {
		return fmt.Errorf("etcdutl snapshot restore: %w\n%s", err, out)
	}
	if err := c.etcd.Kill(); err != nil {
		return err
	}
	data := c.etcdDir()
	if err := errors.Join(os.RemoveAll(data), os.Rename(restored, data)); err != nil {
		return fmt.Errorf("put the restored data in place: %w", err)
	}
	return c.etcd.Start(ctx)
}

package daemon

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"

	"github.com/informd/informd/internal/config"
	"github.com/informd/informd/internal/private"
)

// identityTimeout bounds the question which cluster it is.
const identityTimeout = 30 * time.Second

// clusterUID returns the uid of the namespace kube-system, which tells clusters
// apart. It is "" where the API server says that it may not be read: the journal is then
// taken for this cluster's.
func clusterUID(ctx context.Context, kubernetes *rest.Config, logger *slog.Logger) (string, error) {
	uid, err := identify(ctx, kubernetes)
	switch {
	case fromAPIServer(err) && (apierrors.IsForbidden(err) || apierrors.IsNotFound(err)):
		logger.Warn("journal not matched with the cluster; allow get on namespace kube-system", "err", err)
		return "", nil
	case err != nil:
		return "", fmt.Errorf("get namespace %s: %w", metav1.NamespaceSystem, err)
	}
	return uid, nil
}

// fromAPIServer reports whether an error is a Status that an API server has sent. The answer
// of a proxy, such as a 404 in HTML, is none.
func fromAPIServer(err error) bool {
	return !apierrors.HasStatusCause(err, metav1.CauseTypeUnexpectedServerResponse)
}

// identify asks for that uid.
func identify(ctx context.Context, kubernetes *rest.Config) (string, error) {
	client, err := metadata.NewForConfig(kubernetes)
	if err != nil {
		return "", fmt.Errorf("make client: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, identityTimeout)
	defer cancel()
	namespaces := client.Resource(schema.GroupVersionResource{Version: "v1", Resource: "namespaces"})
	ns, err := namespaces.Get(ctx, metav1.NamespaceSystem, metav1.GetOptions{})
	if err != nil {
		return "", err
	}
	return string(ns.UID), nil
}

// keySize is the least size of a redaction key, and the size of a made one.
const keySize = 32

// keyName is the file in journal.dir with the key that informd has made.
const keyName = "redaction.key"

// redactionKey returns the key of the hash that replaces Secret values: that of the
// config, else one that is made once and kept beside the journal. With a memory journal it is
// made for this process: all other state ends with it, too.
func redactionKey(c *config.Config) ([]byte, error) {
	switch {
	case c.Redaction.KeyFile != "":
		content, err := os.ReadFile(c.Redaction.KeyFile)
		if err != nil {
			return nil, fmt.Errorf("read redaction.keyFile: %w", err)
		}
		return checkedKey(content, c.Redaction.KeyFile, "redaction.keyFile")
	case c.Journal.Type == config.JournalMemory:
		return newKey(), nil
	}
	path := filepath.Join(c.Journal.Dir, keyName)
	key, err := readOwnKey(path)
	if !errors.Is(err, os.ErrNotExist) {
		return key, err
	}
	text := hex.EncodeToString(newKey())
	if err := private.Replace(path, []byte(text+"\n")); err != nil {
		return nil, fmt.Errorf("keep the redaction key: %w", err)
	}
	return []byte(text), nil
}

// readOwnKey reads the key that informd has made. Others must not be able to read it: they
// could find short values by trying. A group may, as Kubernetes gives every file of a
// volume to one (fsGroup).
func readOwnKey(path string) ([]byte, error) {
	content, err := private.Read(path)
	if err != nil {
		return nil, fmt.Errorf("read the redaction key: %w", err)
	}
	if info, err := os.Lstat(path); err != nil {
		return nil, fmt.Errorf("read the redaction key: %w", err)
	} else if info.Mode().Perm()&0o007 != 0 {
		return nil, fmt.Errorf("redaction key %s: every user of the machine can read it or write to it (mode %s); run chmod 0600, or remove it, "+
			"and informd makes a new one: hashes then differ", path, info.Mode())
	}
	return checkedKey(content, path, "redaction key")
}

func checkedKey(content []byte, path, name string) ([]byte, error) {
	key := bytes.TrimSpace(content)
	if len(key) < keySize {
		return nil, fmt.Errorf("%s %s: the key has %d bytes, it needs at least %d (head -c 32 /dev/urandom | base64)", name, path, len(key), keySize)
	}
	return key, nil
}

func newKey() []byte {
	key := make([]byte, keySize)
	_, _ = rand.Read(key) // never fails, see its documentation
	return key
}

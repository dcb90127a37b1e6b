package jetstream

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"sync"
	"time"

	js "github.com/nats-io/nats.go/jetstream"
)

const (
	refScheme = "nats-object://"
	// chunkBytes is the most that one message of the object store carries.
	chunkBytes = 128 << 10
	// metaSubject is the key under which an object names the subject of its event.
	metaSubject = "subject"
	// objectPatience is how long it may take to write or read an object.
	objectPatience = 10 * time.Second
	// objectAttempts is how often a server that can be reached may fail to take an
	// object before its event is kept without it: a permission that is missing
	// shows as silence.
	objectAttempts = 6
	// objectGrace is how long an object may wait for its event to be published.
	objectGrace = 10 * time.Minute
)

// objects is the bucket for bodies that no message can carry. It is made when it
// is needed first.
type objects struct {
	client js.JetStream
	config js.ObjectStoreConfig
	limit  func() int64

	mu    sync.Mutex
	store js.ObjectStore
}

// bucket returns the store, or creates it if create is set.
func (o *objects) bucket(ctx context.Context, create bool) (js.ObjectStore, error) {
	o.mu.Lock()
	store := o.store
	o.mu.Unlock()
	if store != nil {
		return store, nil
	}
	store, err := o.client.ObjectStore(ctx, o.config.Bucket)
	if errors.Is(err, js.ErrBucketNotFound) && create {
		store, err = o.client.CreateObjectStore(ctx, o.config)
	}
	if err != nil {
		return nil, fmt.Errorf("object store %s: %w", o.config.Bucket, err)
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.store = store
	return store, nil
}

// maxObjectName keeps the subjects of an object, which have its name in base64, under the
// server's limit of a protocol line.
const maxObjectName = 1 << 10

// objectName is the name of the object that has the body of the event id. Ids are as long as
// the uids that the API server gives.
func objectName(id string) string {
	if len(id) <= maxObjectName {
		return id
	}
	sum := sha256.Sum256([]byte(id))
	return hex.EncodeToString(sum[:])
}

// put stores the body of the event id and returns the reference to it.
func (o *objects) put(ctx context.Context, id, subject string, body []byte) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, objectPatience)
	defer cancel()
	store, err := o.bucket(ctx, true)
	if err != nil {
		return "", err
	}
	name := objectName(id)
	meta := js.ObjectMeta{
		Name:     name,
		Metadata: map[string]string{metaSubject: subject},
		Opts:     &js.ObjectMetaOptions{ChunkSize: uint32(min(chunkBytes, o.limit()/2))},
	}
	if _, err := store.Put(ctx, meta, strings.NewReader(string(body))); err != nil {
		return "", fmt.Errorf("object store %s: put %s: %w", o.config.Bucket, name, err)
	}
	return refScheme + o.config.Bucket + "/" + url.PathEscape(name), nil
}

// get returns the body that ref names.
func (o *objects) get(ctx context.Context, ref string) ([]byte, error) {
	rest, ok := strings.CutPrefix(ref, refScheme+o.config.Bucket+"/")
	if !ok {
		return nil, fmt.Errorf("%s: %w", ref, js.ErrObjectNotFound)
	}
	name, err := url.PathUnescape(rest)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", ref, js.ErrObjectNotFound)
	}
	ctx, cancel := context.WithTimeout(ctx, objectPatience)
	defer cancel()
	store, err := o.bucket(ctx, false)
	if err != nil {
		return nil, err
	}
	body, err := store.GetBytes(ctx, name)
	if err != nil {
		return nil, fmt.Errorf("object store %s: get %s: %w", o.config.Bucket, name, err)
	}
	return body, nil
}

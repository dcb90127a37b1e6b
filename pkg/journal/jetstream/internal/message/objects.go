package message

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"

	js "github.com/nats-io/nats.go/jetstream"
)

const (
	refScheme = "nats-object://"
	// chunkBytes is the most that one message of the object store carries.
	chunkBytes = 128 << 10
	// MetaSubject is the key under which an object names the subject of its event.
	MetaSubject = "subject"
	// objectPatience is how long it may take to write or read an object.
	objectPatience = 10 * time.Second
	// ObjectAttempts is how often a server that can be reached must fail to take an object
	// before its event is kept without it: a permission that is missing shows as silence.
	ObjectAttempts = 6
	// ObjectRefusal is for how long it must fail: a stream that elects its leader fails often
	// in a short time.
	ObjectRefusal = ObjectAttempts * objectPatience
	// ObjectGrace is how long an object may wait for its event to be published.
	ObjectGrace = 10 * time.Minute
)

// Objects is the bucket for bodies that no message can carry. The first body creates it.
// Methods may be called concurrently.
type Objects struct {
	client js.JetStream
	config js.ObjectStoreConfig
}

// NewObjects returns the bucket that config describes. It contacts no server.
func NewObjects(client js.JetStream, config js.ObjectStoreConfig) *Objects {
	return &Objects{client: client, config: config}
}

// Bucket asks the server for the bucket. If it is missing, Bucket creates it if create is set,
// else the error is [js.ErrBucketNotFound].
func (o *Objects) Bucket(ctx context.Context, create bool) (js.ObjectStore, error) {
	store, err := o.client.ObjectStore(ctx, o.config.Bucket)
	if errors.Is(err, js.ErrBucketNotFound) && create {
		store, err = o.client.CreateObjectStore(ctx, o.config)
	}
	if err != nil {
		return nil, fmt.Errorf("object store %s: %w", o.config.Bucket, err)
	}
	return store, nil
}

// maxObjectName keeps the subjects of an object, which have its name in base64, under the
// server's limit of a protocol line.
const maxObjectName = 1 << 10

// ObjectName returns the name of the object with the body of the event id. Ids can be as long
// as the UIDs of the API server.
func ObjectName(id string) string {
	if len(id) <= maxObjectName {
		return id
	}
	sum := sha256.Sum256([]byte(id))
	return hex.EncodeToString(sum[:])
}

// put stores the body of the event id and returns the reference to it.
func (o *Objects) put(ctx context.Context, id, subject string, body []byte, limit int64) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, objectPatience)
	defer cancel()
	store, err := o.Bucket(ctx, true)
	if err != nil {
		return "", err
	}
	name := ObjectName(id)
	meta := js.ObjectMeta{
		Name:     name,
		Metadata: map[string]string{MetaSubject: subject},
		Opts:     &js.ObjectMetaOptions{ChunkSize: uint32(min(chunkBytes, limit/2))},
	}
	if _, err := store.Put(ctx, meta, strings.NewReader(string(body))); err != nil {
		return "", fmt.Errorf("object store %s: put %s: %w", o.config.Bucket, name, err)
	}
	return refScheme + o.config.Bucket + "/" + url.PathEscape(name), nil
}

// get returns the body that ref names.
func (o *Objects) get(ctx context.Context, ref string) ([]byte, error) {
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
	store, err := o.Bucket(ctx, false)
	if err != nil {
		return nil, err
	}
	body, err := store.GetBytes(ctx, name)
	if err != nil {
		return nil, fmt.Errorf("object store %s: get %s: %w", o.config.Bucket, name, err)
	}
	return body, nil
}

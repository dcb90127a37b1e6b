package kube

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
)

// An address can lead to another cluster at any time: an operator changes a load balancer, a
// DNS name or a proxy. The objects of the other cluster would look like deletions, new objects
// and a rollback. The uid of the namespace kube-system identifies a cluster. informd reads it
// after each watch is opened and around each list, before it uses anything of them. After any
// new connection it reads the uid over another new one: an older connection stays with the
// cluster that it reached.

// ErrOtherCluster says that the address of the API server leads to another cluster than before.
var ErrOtherCluster = errors.New("the API server belongs to another cluster; informd emits no events until the address leads to the expected cluster (check kubernetes.kubeconfig and kubernetes.context, and the load balancer)")

const (
	// IdentityTimeout limits the request for the identity.
	IdentityTimeout = 30 * time.Second
	// identityPause is the time to the next attempt if the credentials do not allow to read it.
	identityPause = 10 * time.Minute
)

// Identity checks to which cluster the API server belongs, for all targets together. Its
// methods may be called concurrently.
type Identity struct {
	// client reads over the shared connection, fresh over a new one.
	client, fresh rest.Interface
	dials         *dials
	logger        *slog.Logger
	// known: the identity was read once. Proven is the number of connections at the last check
	// that found the right cluster.
	known  atomic.Bool
	proven atomic.Uint64
	// turn is held by the caller that makes the request.
	turn chan struct{}
	// All below belongs to the holder of turn.
	// uid is that of the namespace kube-system, empty until it was read once.
	uid string
	// other is the uid that was read last, if it was another one.
	other string
	// asked is when the last request with an outcome began, err its outcome.
	asked time.Time
	err   error
	// failed is when the last request without an outcome began, failure its error.
	failed  time.Time
	failure error
	// unread is the time at which the credentials did not allow to read it.
	unread time.Time
}

func newIdentity(client, fresh rest.Interface, d *dials, logger *slog.Logger) *Identity {
	return &Identity{client: client, fresh: fresh, dials: d, logger: logger, turn: make(chan struct{}, 1)}
}

// Confirm is [Identity.Check] for an answer that can be the first of a new connection. Without
// a new connection it makes no request.
func (i *Identity) Confirm(ctx context.Context) error {
	if !i.known.Load() || !i.dials.uncounted && i.proven.Load() == i.dials.count.Load() {
		return nil
	}
	return i.Check(ctx)
}

// Check returns [ErrOtherCluster] if the API server belongs to another cluster, as of a moment
// after the call. Concurrent callers share a request. It returns nil if the credentials do
// not allow to read the identity.
func (i *Identity) Check(ctx context.Context) error {
	called := time.Now()
	select {
	case i.turn <- struct{}{}:
		defer func() { <-i.turn }()
	case <-ctx.Done():
		return ctx.Err()
	}
	dialled := i.dials.count.Load()
	proven := !i.dials.uncounted && dialled == i.proven.Load()
	switch {
	case time.Since(i.unread) < identityPause:
		return nil
	case i.asked.After(called):
		return i.err
	case i.failed.After(called):
		return i.failure
	}
	client := i.client
	if !proven || i.other != "" {
		client = i.fresh
	}
	began := time.Now()
	uid, err := i.read(ctx, client)
	switch {
	case apierrors.IsForbidden(err) && i.other != "":
		return i.err // the other cluster does not allow to read it
	case apierrors.IsForbidden(err) && i.uid == "":
		if i.unread.IsZero() {
			i.logger.Warn("cluster identity not checked; permission missing", "err", err,
				"next", "allow get on the namespace kube-system")
		}
		i.unread = time.Now()
		return nil
	case apierrors.IsNotFound(err) && i.uid == "":
		i.asked = began // there may be clusters without it
		i.proven.Store(dialled)
		return nil
	case err != nil && ctx.Err() != nil:
		return err // of this caller alone
	case apierrors.IsForbidden(err): // another cluster may be the one that refuses
		i.failed, i.failure = began, fmt.Errorf("check the identity of the cluster: access is denied, and was allowed before (allow get on the namespace kube-system): %w", err)
		return i.failure
	case err != nil:
		// Callers that wait share the failure: one that hangs would cost each of them its
		// whole time, one after the other.
		i.failed, i.failure = began, fmt.Errorf("check the identity of the cluster: %w", err)
		return i.failure
	}
	if i.asked, i.err = began, i.compare(uid); i.err != nil {
		i.dials.closeAll()
		return i.err
	}
	i.proven.Store(dialled)
	i.known.Store(true)
	return nil
}

func (i *Identity) read(ctx context.Context, client rest.Interface) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, IdentityTimeout)
	defer cancel()
	// Any revision will do: the uid never changes, and the watch cache can answer.
	body, err := client.Get().AbsPath("/api/v1/namespaces", metav1.NamespaceSystem).Param("resourceVersion", "0").MaxRetries(0).DoRaw(ctx)
	if err != nil {
		return "", err
	}
	var ns metav1.PartialObjectMetadata
	if err := json.Unmarshal(body, &ns); err != nil || ns.Kind != "Namespace" || ns.Name != metav1.NamespaceSystem || ns.UID == "" {
		return "", fmt.Errorf("the answer is not the Namespace %s: %.100q", metav1.NamespaceSystem, body)
	}
	return string(ns.UID), nil
}

// compare notes the uid that was read, and returns ErrOtherCluster if it is another one.
func (i *Identity) compare(uid string) error {
	if i.uid == "" {
		i.uid = uid
	}
	if uid == i.uid {
		if i.other != "" {
			i.logger.Info("API server belongs to the expected cluster again", "uid", uid)
		}
		i.other = ""
		return nil
	}
	if i.other != uid {
		i.logger.Error("API server belongs to another cluster; all targets wait",
			"uid", uid, "expected_uid", i.uid, "next", "check kubernetes.kubeconfig and kubernetes.context, and the load balancer")
	}
	i.other = uid
	return fmt.Errorf("%w: namespace kube-system has uid %s, expected %s", ErrOtherCluster, uid, i.uid)
}

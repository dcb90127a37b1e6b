package dynwatch

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

// An address can lead to another cluster from one moment to the next: a load balancer, a
// DNS name or a proxy is pointed elsewhere. What the other cluster shows would look like
// deletions, new objects and a rollback. The uid of the namespace kube-system tells
// clusters apart. It is read after each watch is opened and around each list, before
// anything of them is used. If any connection was made since the last time, it is read over
// a new one: an older connection stays with the cluster that it reached.

// errOtherCluster: the address of the API server leads to another cluster than before.
var errOtherCluster = errors.New("the API server is one of another cluster; no events are emitted until the address leads to the right one (check kubernetes.server or the kubeconfig, and what is between)")

const (
	// identityTimeout bounds the request for the identity.
	identityTimeout = 30 * time.Second
	// identityShared is for how long lists at exact revisions, of which there are many in
	// a row, share a request.
	identityShared = 2 * time.Second
	// identityPause is the time to the next attempt if the identity may not be read.
	identityPause = 10 * time.Minute
)

// clusterIdentity checks which cluster the API server is of, for all targets together.
type clusterIdentity struct {
	// client reads over the shared connection, fresh over a new one.
	client, fresh rest.Interface
	dials         *dials
	logger        *slog.Logger
	// known: the identity was read once. Proven is how many connections there were when it
	// was last found to be the right one.
	known  atomic.Bool
	proven atomic.Uint64
	// turn is held by the one that asks.
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
	// unread is when the credentials did not allow to read it.
	unread time.Time
}

func newIdentity(client, fresh rest.Interface, d *dials, logger *slog.Logger) *clusterIdentity {
	return &clusterIdentity{client: client, fresh: fresh, dials: d, logger: logger, turn: make(chan struct{}, 1)}
}

// confirm is check for an answer that can be the first one of a new connection. Without a
// new connection it makes no request.
func (i *clusterIdentity) confirm(ctx context.Context) error {
	if !i.known.Load() || i.proven.Load() == i.dials.count.Load() {
		return nil
	}
	return i.check(ctx)
}

// check returns errOtherCluster if the API server is of another cluster, as of a moment
// after the call. Callers that wait at the same time share a request. It returns nil where
// the identity may not be read.
func (i *clusterIdentity) check(ctx context.Context) error { return i.checkSince(ctx, time.Now()) }

// checkSince is check as of a moment after since. Many lists in a row share a request.
func (i *clusterIdentity) checkSince(ctx context.Context, since time.Time) error {
	called := time.Now()
	select {
	case i.turn <- struct{}{}:
		defer func() { <-i.turn }()
	case <-ctx.Done():
		return ctx.Err()
	}
	unproven, dialled := i.dials.open()
	proven := dialled == i.proven.Load()
	switch {
	case time.Since(i.unread) < identityPause:
		return nil
	case i.asked.After(called), i.asked.After(since) && proven:
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
			i.logger.Warn("identity of the cluster cannot be checked; allow get on the namespace kube-system", "err", err)
		}
		i.unread = time.Now()
		return nil
	case apierrors.IsNotFound(err) && i.uid == "":
		i.asked = began // there may be clusters without it
		i.dials.prove(unproven)
		i.proven.Store(dialled)
		return nil
	case err != nil && ctx.Err() != nil:
		return err // of this caller alone
	case apierrors.IsForbidden(err): // another cluster may be the one that refuses
		i.failed, i.failure = began, fmt.Errorf("check the identity of the cluster, which could be read before (allow get on the namespace kube-system): %w", err)
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
	i.dials.prove(unproven)
	i.proven.Store(dialled)
	i.known.Store(true)
	return nil
}

func (i *clusterIdentity) read(ctx context.Context, client rest.Interface) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, identityTimeout)
	defer cancel()
	// Any revision will do: the uid never changes, and the watch cache can answer.
	body, err := client.Get().AbsPath("/api/v1/namespaces", metav1.NamespaceSystem).Param("resourceVersion", "0").MaxRetries(0).DoRaw(ctx)
	if err != nil {
		return "", err
	}
	var ns metav1.PartialObjectMetadata
	if err := json.Unmarshal(body, &ns); err != nil || ns.Kind != "Namespace" || ns.Name != metav1.NamespaceSystem || ns.UID == "" {
		return "", fmt.Errorf("the answer is no Namespace %s: %.100q", metav1.NamespaceSystem, body)
	}
	return string(ns.UID), nil
}

// compare takes note of the uid that was read.
func (i *clusterIdentity) compare(uid string) error {
	if i.uid == "" {
		i.uid = uid
	}
	if uid == i.uid {
		if i.other != "" {
			i.logger.Info("the API server is of the right cluster again", "uid", uid)
		}
		i.other = ""
		return nil
	}
	if i.other != uid {
		i.logger.Error("the API server is of another cluster; all targets wait for the right one (check the address and the load balancer)",
			"uid", uid, "expected_uid", i.uid)
	}
	i.other = uid
	return fmt.Errorf("%w: its namespace kube-system has uid %s, not %s", errOtherCluster, uid, i.uid)
}

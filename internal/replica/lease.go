// Package replica makes several processes one informd: a Kubernetes Lease says which of them leads, and the
// others copy its log. A takeover is a restart on the copy. The fields of the Lease mean what they mean in
// client-go's leader election, which would link all of k8s.io/api.
//
// A lease is a promise about time. The leader asks [Leadership.Hold] before each write to a sink. What it
// had sent before it was frozen can still arrive after another one has taken over.
package replica

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
)

// Annotations of the Lease.
const (
	// logAnnotation is the id of the log, and leaderAnnotation the address of the process that has written
	// it last: it differs from the holder between a takeover and the opening of the log.
	logAnnotation    = "informd.dev/log"
	leaderAnnotation = "informd.dev/leader"
	// inSyncAnnotation lists the addresses of the followers whose copies have what any sink has.
	inSyncAnnotation = "informd.dev/in-sync"
)

// leases is the resource of Leases.
func leases() schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: "coordination.k8s.io", Version: "v1", Resource: "leases"}
}

// record is the content of the Lease.
type record struct {
	version string // resourceVersion, empty if there is no Lease
	// holder is the address of the leader, empty if the Lease was released.
	holder   string
	term     int64
	duration time.Duration
	renewed  string // the time as it is written
	leader   string
	log      string
	inSync   []string
}

// client reads and writes one Lease.
type client struct {
	api      dynamic.ResourceInterface
	name     string
	me       string
	duration time.Duration
}

func (c *client) get(ctx context.Context) (record, error) {
	found, err := c.api.Get(ctx, c.name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return record{}, nil
	}
	if err != nil {
		return record{}, fmt.Errorf("get lease %s: %w", c.name, err)
	}
	return recordOf(found), nil
}

func recordOf(o *unstructured.Unstructured) record {
	text := func(field string) string {
		s, _, _ := unstructured.NestedString(o.Object, "spec", field)
		return s
	}
	number := func(field string) int64 {
		n, _, _ := unstructured.NestedInt64(o.Object, "spec", field)
		return n
	}
	notes := o.GetAnnotations()
	r := record{
		version: o.GetResourceVersion(), holder: text("holderIdentity"), renewed: text("renewTime"), term: number("leaseTransitions"),
		duration: time.Duration(number("leaseDurationSeconds")) * time.Second, leader: notes[leaderAnnotation], log: notes[logAnnotation],
	}
	if list := notes[inSyncAnnotation]; list != "" {
		r.inSync = strings.Split(list, ",")
	}
	return r
}

// put writes a record in the place of the one with its version. The error [errConflict] says that another
// one is there.
func (c *client) put(ctx context.Context, r record) (record, error) {
	r.renewed = time.Now().UTC().Format(metav1.RFC3339Micro)
	r.duration = c.duration
	o := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
		"spec": map[string]any{
			"holderIdentity": r.holder, "leaseDurationSeconds": int64(r.duration / time.Second),
			"renewTime": r.renewed, "leaseTransitions": r.term,
		},
	}}
	o.SetName(c.name)
	o.SetResourceVersion(r.version)
	o.SetAnnotations(map[string]string{leaderAnnotation: r.leader, logAnnotation: r.log, inSyncAnnotation: strings.Join(r.inSync, ",")})
	var err error
	if r.version == "" {
		o, err = c.api.Create(ctx, o, metav1.CreateOptions{FieldManager: "informd"})
	} else {
		o, err = c.api.Update(ctx, o, metav1.UpdateOptions{FieldManager: "informd"})
	}
	switch {
	case apierrors.IsConflict(err), apierrors.IsAlreadyExists(err), apierrors.IsNotFound(err) && r.version != "":
		return record{}, errConflict
	case err != nil:
		return record{}, fmt.Errorf("write lease %s: %w", c.name, err)
	}
	r.version = o.GetResourceVersion()
	return r, nil
}

// errConflict: the Lease has changed since it was read.
var errConflict = errors.New("the lease was changed by someone else")

// counts reports whether a leader relies on the copy of this process.
func (r *record) counts(me string) bool { return slices.Contains(r.inSync, me) }

// since is the time since then by the clock that says more: the monotonic clock does not count while the
// machine is suspended, the other can be set back.
func since(then time.Time) time.Duration {
	now := time.Now()
	return max(now.Sub(then), now.Round(0).Sub(then.Round(0)))
}

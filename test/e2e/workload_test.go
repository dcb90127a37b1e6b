package e2e_test

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
)

// kind is a resource that the workload writes.
type kind struct {
	gvr       schema.GroupVersionResource
	kind      string
	namespace string // empty: cluster-scoped
	fields    func(n int) map[string]any
	// patch changes an object; subresource is what to send it to, if any.
	patch       func(n int) string
	subresource string
	// manifest is the content of the last-applied annotation; empty: any.
	manifest string
}

const lastApplied = "kubectl.kubernetes.io/last-applied-configuration"

func (k kind) target() string { return groupOrCore(k.gvr.Group) + "/" + k.gvr.Resource }

func groupOrCore(group string) string {
	if group == "" {
		return "core"
	}
	return group
}

func podKind() kind {
	return kind{
		gvr: schema.GroupVersionResource{Version: "v1", Resource: "pods"}, kind: "Pod", namespace: "default",
		fields: func(n int) map[string]any {
			return map[string]any{"spec": map[string]any{"containers": []any{map[string]any{
				"name": "c", "image": "example.com/image:1", "env": []any{map[string]any{"name": "N", "value": strconv.Itoa(n)}},
			}}}}
		},
		patch: func(n int) string {
			return fmt.Sprintf(`{"status":{"phase":"Running","message":"<update> %d & \"more\""}}`, n)
		},
		subresource: "status",
	}
}

func configMapKind() kind {
	return kind{
		gvr: schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}, kind: "ConfigMap", namespace: "default",
		fields: func(n int) map[string]any {
			return map[string]any{"data": map[string]any{"n": strconv.Itoa(n), "hostile": "ü\n\u2028\x7f\"<"}}
		},
		patch: func(n int) string { return fmt.Sprintf(`{"data":{"n":"%d"}}`, n) },
	}
}

func customKind(plural string, clusterScoped bool) kind {
	k := kind{
		gvr:  schema.GroupVersionResource{Group: "e2e.example.com", Version: "v1", Resource: plural},
		kind: strings.ToUpper(plural[:1]) + plural[1:len(plural)-1], namespace: "default",
		fields: func(n int) map[string]any {
			return map[string]any{"spec": map[string]any{"n": int64(n), "zero": 1.50, "items": []any{}}}
		},
		patch: func(n int) string { return fmt.Sprintf(`{"spec":{"n":%d}}`, n) },
	}
	if clusterScoped {
		k.namespace = ""
	}
	return k
}

// definition is the custom resource definition of a custom kind that is served in one
// version.
func (k kind) definition() *unstructured.Unstructured {
	scope := "Namespaced"
	if k.namespace == "" {
		scope = "Cluster"
	}
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
		"metadata": map[string]any{"name": k.gvr.Resource + "." + k.gvr.Group},
		"spec": map[string]any{
			"group": k.gvr.Group, "scope": scope,
			"names":    map[string]any{"plural": k.gvr.Resource, "singular": strings.ToLower(k.kind), "kind": k.kind, "listKind": k.kind + "List"},
			"versions": []any{customVersion(k.gvr.Version, true, true)},
		},
	}}
}

// customVersion is one version of a custom resource.
func customVersion(name string, served, storage bool) map[string]any {
	return map[string]any{
		"name": name, "served": served, "storage": storage,
		"schema": map[string]any{"openAPIV3Schema": map[string]any{
			"type": "object", "x-kubernetes-preserve-unknown-fields": true,
		}},
	}
}

func customResourceDefinitions(client dynamic.Interface) dynamic.ResourceInterface {
	return client.Resource(schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"})
}

// install creates the custom resource definition of a custom kind and waits
// until it is served.
func (k kind) install(t *testing.T, client dynamic.Interface) {
	t.Helper()
	if _, err := customResourceDefinitions(client).Create(t.Context(), k.definition(), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, k.target()+" served", func() bool {
		_, err := client.Resource(k.gvr).List(t.Context(), metav1.ListOptions{Limit: 1})
		return err == nil
	})
}

// ledger is what the workload wrote, as the API server's answers say: the
// independent truth that the stream is held against.
type ledger struct {
	mu sync.Mutex
	// revisions per target and uid, ascending.
	revisions map[string]map[string][]uint64
	// deleted uids per target.
	deleted map[string]map[string]bool
}

func newLedger() *ledger {
	return &ledger{revisions: make(map[string]map[string][]uint64), deleted: make(map[string]map[string]bool)}
}

func (l *ledger) wrote(k kind, o *unstructured.Unstructured) {
	rv, err := strconv.ParseUint(o.GetResourceVersion(), 10, 64)
	if err != nil {
		panic(err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	m := l.revisions[k.target()]
	if m == nil {
		m = make(map[string][]uint64)
		l.revisions[k.target()] = m
	}
	m[string(o.GetUID())] = append(m[string(o.GetUID())], rv)
}

// last is the last revision that was written of a kind.
func (l *ledger) last(k kind) (rv uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, revisions := range l.revisions[k.target()] {
		rv = max(rv, revisions[len(revisions)-1])
	}
	return rv
}

func (l *ledger) removed(k kind, uid types.UID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.deleted[k.target()] == nil {
		l.deleted[k.target()] = make(map[string]bool)
	}
	l.deleted[k.target()][string(uid)] = true
}

// begin is to be called when informd is about to start: of what was written until
// then it sees no more than what is there, each object in its last state.
func (l *ledger) begin() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for target, objects := range l.revisions {
		for uid, revisions := range objects {
			objects[uid] = revisions[len(revisions)-1:]
			if l.deleted[target][uid] {
				delete(objects, uid)
			}
		}
		delete(l.deleted, target)
	}
}

// writer writes one kind's objects at random.
type writer struct {
	kind   kind
	client dynamic.ResourceInterface
	ledger *ledger
	random *rand.Rand
	alive  map[string]types.UID
	n      int
}

func newWriter(client dynamic.Interface, k kind, l *ledger, seed uint64) *writer {
	w := &writer{kind: k, ledger: l, random: rand.New(rand.NewPCG(seed, 1)), alive: make(map[string]types.UID)}
	w.client = client.Resource(k.gvr)
	if k.namespace != "" {
		w.client = client.Resource(k.gvr).Namespace(k.namespace)
	}
	return w
}

// adopt takes over the objects that exist.
func (w *writer) adopt(t *testing.T) {
	t.Helper()
	list, err := w.client.List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range list.Items {
		w.alive[o.GetName()] = o.GetUID()
		w.n += 1000 // so that every update changes something
	}
}

// write makes n random changes: creates, updates and deletes of few names, so
// that names come back under new uids.
func (w *writer) write(ctx context.Context, n int) error {
	for range n {
		name := fmt.Sprintf("%s-%d", strings.ToLower(w.kind.kind), w.random.IntN(12))
		uid, exists := w.alive[name]
		var err error
		switch {
		case !exists:
			err = w.create(ctx, name)
		case w.random.IntN(4) == 0:
			err = w.delete(ctx, name, uid)
		default:
			err = w.update(ctx, name)
		}
		if err != nil {
			return fmt.Errorf("write %s %s: %w", w.kind.kind, name, err)
		}
	}
	return nil
}

func (w *writer) create(ctx context.Context, name string) error {
	w.n++
	o := &unstructured.Unstructured{Object: w.kind.fields(w.n)}
	o.SetAPIVersion(w.kind.gvr.GroupVersion().String())
	o.SetKind(w.kind.kind)
	o.SetName(name)
	o.SetAnnotations(map[string]string{lastApplied: cmp.Or(w.kind.manifest, "{}"), "kept": "yes"})
	created, err := w.client.Create(ctx, o, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	w.alive[name] = created.GetUID()
	w.ledger.wrote(w.kind, created)
	return nil
}

func (w *writer) update(ctx context.Context, name string) error {
	w.n++
	var sub []string
	if w.kind.subresource != "" {
		sub = []string{w.kind.subresource}
	}
	o, err := w.client.Patch(ctx, name, types.MergePatchType, []byte(w.kind.patch(w.n)), metav1.PatchOptions{}, sub...)
	if err != nil {
		return err
	}
	w.ledger.wrote(w.kind, o)
	return nil
}

func (w *writer) delete(ctx context.Context, name string, uid types.UID) error {
	now := int64(0)
	if err := w.client.Delete(ctx, name, metav1.DeleteOptions{GracePeriodSeconds: &now}); err != nil && !apierrors.IsNotFound(err) {
		return err
	}
	delete(w.alive, name)
	w.ledger.removed(w.kind, uid)
	return nil
}

// fast lifts the client's rate limit.
func fast(c *rest.Config) *rest.Config {
	c.QPS = -1
	c.Timeout = 30 * time.Second
	return c
}

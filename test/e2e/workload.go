package e2e

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

// EventKind is Kubernetes' own events, by one of their two names.
func EventKind(namespace string) Kind {
	return Kind{
		GVR: schema.GroupVersionResource{Version: "v1", Resource: "events"}, Kind: "Event", Namespace: namespace,
		Fields: func(n int) map[string]any {
			return map[string]any{
				"involvedObject": map[string]any{"kind": "Pod", "namespace": namespace, "name": fmt.Sprintf("pod-%d", n)},
				"reason":         "Tested", "message": "something happened", "type": "Normal",
			}
		},
		Patch: func(n int) string { return fmt.Sprintf(`{"message":"it happened %d times"}`, n) },
	}
}

// loadInterval is between two changes of one kind: 200 events a second of all.
const loadInterval = 20 * time.Millisecond

// LoadAll changes each kind every loadInterval until the returned function is
// called, which waits for the last change.
func LoadAll(t *testing.T, client dynamic.Interface, kinds []Kind, l *Ledger, seed uint64) (end func()) {
	t.Helper()
	ended := make(chan struct{})
	var wg sync.WaitGroup
	for i, k := range kinds {
		w := NewWriter(client, k, l, seed*100+uint64(i))
		w.Adopt(t)
		wg.Go(func() {
			pace := time.NewTicker(loadInterval)
			defer pace.Stop()
			for {
				select {
				case <-ended:
					return
				case <-pace.C:
				}
				if err := w.write(context.WithoutCancel(t.Context()), 1); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	once := sync.OnceFunc(func() {
		close(ended)
		wg.Wait()
	})
	t.Cleanup(once)
	return once
}

// WriteAll makes n random changes to each kind.
func WriteAll(t *testing.T, client dynamic.Interface, kinds []Kind, l *Ledger, n int, seed uint64) {
	t.Helper()
	var wg sync.WaitGroup
	for i, k := range kinds {
		w := NewWriter(client, k, l, seed*100+uint64(i))
		w.Adopt(t)
		wg.Go(func() {
			if err := w.write(t.Context(), n); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if t.Failed() {
		t.FailNow()
	}
}

// Kind is a resource that the workload writes.
type Kind struct {
	GVR       schema.GroupVersionResource
	Kind      string
	Namespace string // empty: cluster-scoped
	Fields    func(n int) map[string]any
	// Patch changes an object; subresource is what to send it to, if any.
	Patch       func(n int) string
	Subresource string
	// Manifest is the content of the last-applied annotation; empty: any.
	Manifest string
}

// LastApplied is the annotation of `kubectl apply`.
const LastApplied = "kubectl.kubernetes.io/last-applied-configuration"

// Target is the name of its target, as informd shows it.
func (k Kind) Target() string { return GroupOrCore(k.GVR.Group) + "/" + k.GVR.Resource }

// GroupOrCore is the group as informd shows it.
func GroupOrCore(group string) string {
	if group == "" {
		return "core"
	}
	return group
}

// PodKind is pods, of which the status is a subresource.
func PodKind() Kind {
	return Kind{
		GVR: schema.GroupVersionResource{Version: "v1", Resource: "pods"}, Kind: "Pod", Namespace: "default",
		Fields: func(n int) map[string]any {
			return map[string]any{"spec": map[string]any{"containers": []any{map[string]any{
				"name": "c", "image": "example.com/image:1", "env": []any{map[string]any{"name": "N", "value": strconv.Itoa(n)}},
			}}}}
		},
		Patch: func(n int) string {
			return fmt.Sprintf(`{"status":{"phase":"Running","message":"<update> %d & \"more\""}}`, n)
		},
		Subresource: "status",
	}
}

// ConfigMapKind is config maps.
func ConfigMapKind() Kind {
	return Kind{
		GVR: schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}, Kind: "ConfigMap", Namespace: "default",
		Fields: func(n int) map[string]any {
			return map[string]any{"data": map[string]any{"n": strconv.Itoa(n), "hostile": "ü\n\u2028\x7f\"<"}}
		},
		Patch: func(n int) string { return fmt.Sprintf(`{"data":{"n":"%d"}}`, n) },
	}
}

// CustomKind is a custom kind of the group e2e.example.com.
func CustomKind(plural string, clusterScoped bool) Kind {
	k := Kind{
		GVR:  schema.GroupVersionResource{Group: "e2e.example.com", Version: "v1", Resource: plural},
		Kind: strings.ToUpper(plural[:1]) + plural[1:len(plural)-1], Namespace: "default",
		Fields: func(n int) map[string]any {
			return map[string]any{"spec": map[string]any{"n": int64(n), "zero": 1.50, "items": []any{}}}
		},
		Patch: func(n int) string { return fmt.Sprintf(`{"spec":{"n":%d}}`, n) },
	}
	if clusterScoped {
		k.Namespace = ""
	}
	return k
}

// Definition is the custom resource definition of a custom kind that is served in one
// version.
func (k Kind) Definition() *unstructured.Unstructured {
	scope := "Namespaced"
	if k.Namespace == "" {
		scope = "Cluster"
	}
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
		"metadata": map[string]any{"name": k.GVR.Resource + "." + k.GVR.Group},
		"spec": map[string]any{
			"group": k.GVR.Group, "scope": scope,
			"names":    map[string]any{"plural": k.GVR.Resource, "singular": strings.ToLower(k.Kind), "kind": k.Kind, "listKind": k.Kind + "List"},
			"versions": []any{CustomVersion(k.GVR.Version, true, true)},
		},
	}}
}

// CustomVersion is one version of a custom resource.
func CustomVersion(name string, served, storage bool) map[string]any {
	return map[string]any{
		"name": name, "served": served, "storage": storage,
		"schema": map[string]any{"openAPIV3Schema": map[string]any{
			"type": "object", "x-kubernetes-preserve-unknown-fields": true,
		}},
	}
}

// CustomResourceDefinitions is the client of the definitions.
func CustomResourceDefinitions(client dynamic.Interface) dynamic.ResourceInterface {
	return client.Resource(schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"})
}

// Install creates the custom resource definition of a custom kind and waits
// until it is served.
func (k Kind) Install(t *testing.T, client dynamic.Interface) {
	t.Helper()
	Create(t, CustomResourceDefinitions(client), k.Definition())
	Eventually(t, k.Target()+" served", func() bool {
		_, err := client.Resource(k.GVR).List(t.Context(), metav1.ListOptions{Limit: 1})
		return err == nil
	})
}

// Ledger is what the workload wrote, as the API server's answers say: the
// independent truth that the stream is held against.
type Ledger struct {
	mu sync.Mutex
	// Revisions per target and uid, ascending.
	Revisions map[string]map[string][]uint64
	// Deleted uids per target.
	Deleted map[string]map[string]bool
}

// NewLedger is an empty one.
func NewLedger() *Ledger {
	return &Ledger{Revisions: make(map[string]map[string][]uint64), Deleted: make(map[string]map[string]bool)}
}

func (l *Ledger) wrote(k Kind, o *unstructured.Unstructured) {
	rv, err := strconv.ParseUint(o.GetResourceVersion(), 10, 64)
	if err != nil {
		panic(err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	m := l.Revisions[k.Target()]
	if m == nil {
		m = make(map[string][]uint64)
		l.Revisions[k.Target()] = m
	}
	m[string(o.GetUID())] = append(m[string(o.GetUID())], rv)
}

// last is the last revision that was written of a kind.
func (l *Ledger) last(k Kind) (rv uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, revisions := range l.Revisions[k.Target()] {
		rv = max(rv, revisions[len(revisions)-1])
	}
	return rv
}

// Removed notes that the object with that UID was deleted.
func (l *Ledger) Removed(k Kind, uid types.UID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.Deleted[k.Target()] == nil {
		l.Deleted[k.Target()] = make(map[string]bool)
	}
	l.Deleted[k.Target()][string(uid)] = true
}

// Begin is to be called when informd is about to start: of what was written until
// then it sees no more than what is there, each object in its last state.
func (l *Ledger) Begin() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for target, objects := range l.Revisions {
		for uid, revisions := range objects {
			objects[uid] = revisions[len(revisions)-1:]
			if l.Deleted[target][uid] {
				delete(objects, uid)
			}
		}
		delete(l.Deleted, target)
	}
}

// Writer writes one kind's objects at random.
type Writer struct {
	Kind   Kind
	client dynamic.ResourceInterface
	Ledger *Ledger
	random *rand.Rand
	Alive  map[string]types.UID
	N      int
}

// NewWriter writes to a kind. The same seed makes the same changes.
func NewWriter(client dynamic.Interface, k Kind, l *Ledger, seed uint64) *Writer {
	w := &Writer{Kind: k, Ledger: l, random: rand.New(rand.NewPCG(seed, 1)), Alive: make(map[string]types.UID)}
	w.client = client.Resource(k.GVR)
	if k.Namespace != "" {
		w.client = client.Resource(k.GVR).Namespace(k.Namespace)
	}
	return w
}

// Adopt takes over the objects that exist.
func (w *Writer) Adopt(t *testing.T) {
	t.Helper()
	list, err := w.client.List(t.Context(), metav1.ListOptions{})
	Must(t, err)
	for _, o := range list.Items {
		w.Alive[o.GetName()] = o.GetUID()
		w.N += 1000 // so that every update changes something
	}
}

// write makes n random changes: creates, updates and deletes of few names, so
// that names come back under new uids.
func (w *Writer) write(ctx context.Context, n int) error {
	for range n {
		name := fmt.Sprintf("%s-%d", strings.ToLower(w.Kind.Kind), w.random.IntN(12))
		uid, exists := w.Alive[name]
		var err error
		switch {
		case !exists:
			err = w.Create(ctx, name)
		case w.random.IntN(4) == 0:
			err = w.Delete(ctx, name, uid)
		default:
			err = w.Update(ctx, name)
		}
		if err != nil {
			return fmt.Errorf("write %s %s: %w", w.Kind.Kind, name, err)
		}
	}
	return nil
}

// Create creates an object.
func (w *Writer) Create(ctx context.Context, name string) error {
	w.N++
	o := &unstructured.Unstructured{Object: w.Kind.Fields(w.N)}
	o.SetAPIVersion(w.Kind.GVR.GroupVersion().String())
	o.SetKind(w.Kind.Kind)
	o.SetName(name)
	o.SetAnnotations(map[string]string{LastApplied: cmp.Or(w.Kind.Manifest, "{}"), "kept": "yes"})
	created, err := w.client.Create(ctx, o, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	w.Alive[name] = created.GetUID()
	w.Ledger.wrote(w.Kind, created)
	return nil
}

// Update changes an object.
func (w *Writer) Update(ctx context.Context, name string) error {
	w.N++
	var sub []string
	if w.Kind.Subresource != "" {
		sub = []string{w.Kind.Subresource}
	}
	o, err := w.client.Patch(ctx, name, types.MergePatchType, []byte(w.Kind.Patch(w.N)), metav1.PatchOptions{}, sub...)
	if err != nil {
		return err
	}
	w.Ledger.wrote(w.Kind, o)
	return nil
}

// Delete deletes an object.
func (w *Writer) Delete(ctx context.Context, name string, uid types.UID) error {
	now := int64(0)
	if err := w.client.Delete(ctx, name, metav1.DeleteOptions{GracePeriodSeconds: &now}); err != nil && !apierrors.IsNotFound(err) {
		return err
	}
	delete(w.Alive, name)
	w.Ledger.Removed(w.Kind, uid)
	return nil
}

// Fast lifts the client's rate limit.
func Fast(c *rest.Config) *rest.Config {
	c.QPS = -1
	c.Timeout = 30 * time.Second
	return c
}

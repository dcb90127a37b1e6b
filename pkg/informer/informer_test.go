package informer_test

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"maps"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/informd/informd/pkg/informer"
	"github.com/informd/informd/pkg/informer/informertest"
)

func pods() schema.GroupVersionResource    { return core("pods") }
func secrets() schema.GroupVersionResource { return core("secrets") }
func configs() schema.GroupVersionResource { return core("configmaps") }

func core(resource string) schema.GroupVersionResource {
	return schema.GroupVersionResource{Version: "v1", Resource: resource}
}

// patience is how long a test waits for a condition.
const patience = time.Minute

func eventually(t *testing.T, what string, met func() bool) {
	t.Helper()
	if !inTime(t, met) {
		t.Fatal("not seen: ", what)
	}
}

// inTime waits until a condition is met. It reports false if that takes too long.
func inTime(t *testing.T, met func() bool) bool {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !met() {
		select {
		case <-ctx.Done():
			return false
		case <-tick.C:
		}
	}
	return true
}

// recorder is a handler that writes down its calls.
type recorder struct {
	mu    sync.Mutex
	calls []string
}

func (r *recorder) add(call string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.calls = append(r.calls, call)
}

func nameOf(o any) string {
	if m, ok := o.(metav1.Object); ok {
		return m.GetName()
	}
	return fmt.Sprintf("%T", o)
}

func (r *recorder) OnAdd(o any, initial bool) { r.add(fmt.Sprintf("add %s %t", nameOf(o), initial)) }
func (r *recorder) OnUpdate(_, o any)         { r.add("update " + nameOf(o)) }
func (r *recorder) OnDelete(o any) {
	if u, ok := o.(cache.DeletedFinalStateUnknown); ok {
		r.add("lost " + u.Key)
		return
	}
	r.add("delete " + nameOf(o))
}

func (r *recorder) String() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return strings.Join(r.calls, ", ")
}

func (r *recorder) wants(t *testing.T, calls ...string) {
	t.Helper()
	want := strings.Join(calls, ", ")
	if !inTime(t, func() bool { return r.String() == want }) {
		t.Fatalf("calls\n got %s\nwant %s", r, want)
	}
}

// newFactory returns a factory whose informers have ended when the test ends, without a
// goroutine left.
func newFactory(t *testing.T, f *fakeAPI, o informer.Options) (factory *informer.Factory, start func()) {
	t.Helper()
	ignore := goleak.IgnoreCurrent()
	o.Logger = cmp.Or(o.Logger, slog.New(slog.DiscardHandler))
	factory, err := informer.NewFactory(f.config(), o)
	must(t, err)
	stop := make(chan struct{})
	t.Cleanup(func() {
		close(stop)
		factory.Shutdown()
		goleak.VerifyNone(t, ignore)
	})
	return factory, func() {
		t.Helper()
		factory.Start(stop)
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		for gvr, synced := range factory.WaitForCacheSync(ctx.Done()) {
			if !synced {
				t.Fatal("not synced: ", gvr)
			}
		}
	}
}

func handle(t *testing.T, i cache.SharedIndexInformer, h cache.ResourceEventHandler) cache.ResourceEventHandlerRegistration {
	t.Helper()
	r, err := i.AddEventHandler(h)
	must(t, err)
	return r
}

func TestEventsAndLister(t *testing.T) {
	api := newFakeAPI(t)
	api.put("pods", "a", "one", map[string]any{"metadata": map[string]any{"labels": map[string]any{"app": "x"}, "managedFields": []any{}}})
	factory, start := newFactory(t, api, informer.Options{})
	generic := factory.ForResource(pods())
	var early, late recorder
	handle(t, generic.Informer(), &early)
	start()
	early.wants(t, "add one true")
	api.put("pods", "b", "two", nil)
	api.put("pods", "a", "one", map[string]any{"spec": map[string]any{"nodeName": "n"}})
	api.delete("pods", "b", "two")
	api.put("pods", "b", "two", nil)
	early.wants(t, "add one true", "add two false", "update one", "delete two", "add two false")
	registered := handle(t, generic.Informer(), &late)
	late.wants(t, "add one true", "add two true")
	eventually(t, "the late handler is synced", registered.HasSynced)

	list, err := generic.Lister().ByNamespace("a").List(labels.SelectorFromSet(labels.Set{"app": "x"}))
	if err != nil || len(list) != 1 {
		t.Fatalf("list %v (%v), want one Pod", list, err)
	}
	got := list[0].(*unstructured.Unstructured) //nolint:forcetypeassert // a panic fails the test, too
	if _, found := got.Object["metadata"].(map[string]any)["managedFields"]; !found || got.GetKind() != "Pod" {
		t.Errorf("object %v, want it as the API server sent it", got.Object)
	}
	got.SetName("changed")
	if o, err := generic.Lister().ByNamespace("a").Get("one"); err != nil || nameOf(o) != "one" {
		t.Errorf("got %v (%v); a caller's change reached the store", o, err)
	}
	if _, err := generic.Lister().ByNamespace("a").Get("two"); !apierrors.IsNotFound(err) {
		t.Errorf("error %v, want not found", err)
	}
}

func TestSecretsInClearAndMetadata(t *testing.T) {
	api := newFakeAPI(t)
	api.put("secrets", "a", "one", map[string]any{"data": map[string]any{"password": "aHVudGVyMg=="}})
	factory, start := newFactory(t, api, informer.Options{Namespace: "a"})
	whole, partial := factory.ForResource(secrets()), factory.ForMetadata(secrets())
	start()
	o, err := whole.Lister().ByNamespace("a").Get("one")
	must(t, err)
	value, _, _ := unstructured.NestedString(o.(*unstructured.Unstructured).Object, "data", "password") //nolint:forcetypeassert // a panic fails the test, too
	if value != "aHVudGVyMg==" {
		t.Errorf("value %q", value)
	}
	if o, err = partial.Lister().ByNamespace("a").Get("one"); err != nil {
		t.Fatal(err)
	}
	if _, ok := o.(*metav1.PartialObjectMetadata); !ok {
		t.Errorf("object %T", o)
	}
}

// gadget is the Go type of a custom resource. Its schema may have a text where the type has a duration.
type gadget struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`

	Spec struct {
		Grace metav1.Duration `json:"grace"`
	} `json:"spec"`
}

func (g *gadget) DeepCopyObject() runtime.Object {
	c := *g
	c.ObjectMeta = *g.ObjectMeta.DeepCopy()
	return &c
}

// TestObjectThatItsTypeCannotHold: the handler and the store know its valid states only.
func TestObjectThatItsTypeCannotHold(t *testing.T) {
	api := newFakeAPI(t)
	grace := func(period string) {
		api.put("configmaps", "a", "one", map[string]any{"spec": map[string]any{"grace": period}})
	}
	grace("soon")
	i, err := informer.NewSharedIndexInformer(api.config(), configs(), &gadget{}, 0, cache.Indexers{})
	must(t, err)
	var seen recorder
	handle(t, i, &seen)
	run(t, i)
	grace("5s")
	seen.wants(t, "add one false")
	grace("soon")
	eventually(t, "the last state is read", func() bool { return i.LastSyncResourceVersion() == api.revision() })
	o, exists, err := i.GetStore().GetByKey("a/one")
	if err != nil || !exists || o.(*gadget).Spec.Grace.Duration != 5*time.Second { //nolint:forcetypeassert // a panic fails the test, too
		t.Errorf("the store has %v, %t, %v; want the valid state", o, exists, err)
	}
	grace("6s")
	seen.wants(t, "add one false", "update one")
	grace("soon")
	api.delete("configmaps", "a", "one")
	seen.wants(t, "add one false", "update one", "lost a/one")
}

// cpuTime is that of this process.
func cpuTime(t *testing.T) time.Duration {
	t.Helper()
	var used syscall.Rusage
	must(t, syscall.Getrusage(syscall.RUSAGE_SELF, &used))
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}

// TestResyncBehindAFullQueue: a handler gets no update of an object before its add, although the
// store is ahead while the queue of another handler is full.
func TestResyncBehindAFullQueue(t *testing.T) {
	api := newFakeAPI(t)
	factory, start := newFactory(t, api, informer.Options{QueueLimit: 1})
	i := factory.ForResource(pods()).Informer()
	release := make(chan struct{})
	handle(t, i, cache.ResourceEventHandlerFuncs{AddFunc: func(any) { <-release }})
	var seen recorder
	const period = 10 * time.Millisecond
	if _, err := i.AddEventHandlerWithResyncPeriod(&seen, period); err != nil {
		t.Fatal(err)
	}
	start()
	api.put("pods", "a", "first", nil) // the other handler blocks
	api.put("pods", "a", "second", nil)
	api.put("pods", "a", "third", nil)
	eventually(t, "the third is stored", func() bool { return len(i.GetStore().ListKeys()) == 3 })
	const window = 20 * period
	began, before := time.Now(), cpuTime(t)
	<-time.After(window)
	used, took := cpuTime(t)-before, time.Since(began) // a busy machine has a longer window
	if used > took/2 {
		t.Errorf("%v of CPU time within %v, in which the handler can only wait", used, took)
	}
	close(release)
	eventually(t, "an update of each", func() bool {
		calls := seen.String()
		return strings.Contains(calls, "update second") && strings.Contains(calls, "update third")
	})
	for _, key := range i.GetStore().ListKeys() {
		name := strings.TrimPrefix(key, "a/")
		before, _, _ := strings.Cut(seen.String(), "add "+name)
		if strings.Contains(before, "update "+name) {
			t.Errorf("an update of %s before its add: %s", name, before)
		}
	}
}

// fakeAPI is a fake cluster whose objects the tests name in short.
type fakeAPI struct{ *informertest.Cluster }

func newFakeAPI(t *testing.T) *fakeAPI {
	t.Helper()
	return &fakeAPI{informertest.New()}
}

func (f *fakeAPI) config() *rest.Config { return f.Config() }

// put creates or changes an object: more is merged into it.
func (f *fakeAPI) put(resource, namespace, name string, more map[string]any) {
	kinds := map[string]string{"pods": "Pod", "configmaps": "ConfigMap", "secrets": "Secret", "namespaces": "Namespace"}
	metadata := map[string]any{"name": name, "namespace": namespace}
	if given, ok := more["metadata"].(map[string]any); ok {
		maps.Copy(metadata, given)
	}
	o := map[string]any{"apiVersion": "v1", "kind": kinds[resource]}
	maps.Copy(o, more)
	o["metadata"] = metadata
	f.Patch(o)
}

func (f *fakeAPI) delete(resource, namespace, name string) {
	f.Delete(schema.GroupResource{Resource: resource}, namespace, name)
}

// lose deletes an object such that only a list shows it.
func (f *fakeAPI) lose(resource, namespace, name string) {
	f.Outage(func() {
		f.delete(resource, namespace, name)
		f.Compact()
	})
}

// denySecrets makes lists of Secrets forbidden.
func (f *fakeAPI) denySecrets() (allow func()) {
	return f.Inject(informertest.Fault{Verb: informertest.List, Resource: schema.GroupResource{Resource: "secrets"}, Code: 403})
}

// revision is the newest resourceVersion.
func (f *fakeAPI) revision() string { return strconv.FormatUint(f.Revision(), 10) }

package informer_test

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/informd/informd/pkg/informer"
)

// gateway is a transport to a fakeAPI below /clusters/c1, which records lists.
type gateway struct {
	to     *fakeAPI
	mu     sync.Mutex
	lists  []string // paths with selectors
	accept []string // Accept headers of the lists
}

// RoundTrip implements [http.RoundTripper].
func (g *gateway) RoundTrip(r *http.Request) (*http.Response, error) {
	q := r.URL.Query()
	if strings.Contains(r.URL.Path, "/v1/") && q.Get("watch") == "" {
		g.mu.Lock()
		g.lists = append(g.lists, strings.Join([]string{r.URL.Path, q.Get("labelSelector"), q.Get("fieldSelector")}, " "))
		g.accept = append(g.accept, r.Header.Get("Accept"))
		g.mu.Unlock()
	}
	path, found := strings.CutPrefix(r.URL.Path, "/clusters/c1")
	if !found {
		return nil, fmt.Errorf("path %s is outside of the gateway", r.URL.Path)
	}
	inner := r.Clone(r.Context())
	inner.URL.Path = path
	return g.to.RoundTrip(inner)
}

func (g *gateway) config() *rest.Config {
	return &rest.Config{Host: "http://gateway.invalid/clusters/c1/", Transport: g}
}

func (g *gateway) seen() []string {
	g.mu.Lock()
	defer g.mu.Unlock()
	return slices.Clone(g.lists)
}

// listWatch is what controller-runtime passes: functions over a client, with selectors.
func listWatch(t *testing.T, config *rest.Config, gvr schema.GroupVersionResource, namespace string, selectors metav1.ListOptions) cache.ListerWatcher {
	t.Helper()
	web, err := rest.HTTPClientFor(config)
	must(t, err)
	client, err := dynamic.NewForConfigAndClient(config, web)
	must(t, err)
	resource := client.Resource(gvr)
	apply := func(o metav1.ListOptions) metav1.ListOptions {
		o.LabelSelector, o.FieldSelector = selectors.LabelSelector, selectors.FieldSelector
		return o
	}
	return &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			if namespace != "" {
				return resource.Namespace(namespace).List(ctx, apply(o))
			}
			return resource.List(ctx, apply(o))
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			if o.SendInitialEvents != nil { // the fake server would ignore it
				return nil, apierrors.NewInvalid(schema.GroupKind{}, "", nil)
			}
			return resource.Namespace(namespace).Watch(ctx, apply(o))
		},
	}
}

// run runs an informer until the returned function is called, or the test ends.
func run(t *testing.T, i cache.SharedIndexInformer) (stop func()) {
	t.Helper()
	p := &podInformer{SharedIndexInformer: i, done: make(chan struct{})}
	p.start(t)
	eventually(t, "the informer is synced", i.HasSynced)
	return p.end
}

// logged returns the log of the default logger from now on.
func logged(t *testing.T) *bytes.Buffer {
	t.Helper()
	var log bytes.Buffer // the handler has a lock
	before := slog.Default()
	slog.SetDefault(slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelWarn})))
	t.Cleanup(func() { slog.SetDefault(before) })
	return &log
}

func partial(version, kind string) *metav1.PartialObjectMetadata {
	return &metav1.PartialObjectMetadata{TypeMeta: metav1.TypeMeta{APIVersion: version, Kind: kind}}
}

// replaced reports whether an informer is not client-go's.
func replaced(i cache.SharedIndexInformer) bool {
	return fmt.Sprintf("%T", i) != fmt.Sprintf("%T", cache.NewSharedIndexInformer(nil, nil, 0, nil))
}

// TestForControllerRuntimeReadsTheList: informers watch what their list function lists, behind a
// host with a path, and their making sends nothing.
func TestForControllerRuntimeReadsTheList(t *testing.T) {
	logged(t)
	f := newFakeAPI(t)
	g := &gateway{to: f}
	f.put("pods", "a", "p", nil)
	f.put("namespaces", "", "a", nil)
	config := g.config()
	config.ContentType = runtime.ContentTypeProtobuf
	create := informer.ForControllerRuntime(config)
	for _, c := range []struct {
		gvr       schema.GroupVersionResource
		namespace string
		selectors metav1.ListOptions
		want      string
	}{
		{pods(), "", metav1.ListOptions{}, "/clusters/c1/api/v1/pods  "},
		{pods(), "a", metav1.ListOptions{}, "/clusters/c1/api/v1/namespaces/a/pods  "},
		{pods(), "b", metav1.ListOptions{}, "/clusters/c1/api/v1/namespaces/b/pods  "},
		{pods(), "", metav1.ListOptions{LabelSelector: "x in (1,2),!y"}, "/clusters/c1/api/v1/pods x in (1,2),!y "},
		{pods(), "a", metav1.ListOptions{FieldSelector: "metadata.name=p"}, "/clusters/c1/api/v1/namespaces/a/pods  metadata.name=p"},
		{core("namespaces"), "", metav1.ListOptions{}, "/clusters/c1/api/v1/namespaces  "},
	} {
		before := len(g.seen())
		i := create(listWatch(t, config, c.gvr, c.namespace, c.selectors), &unstructured.Unstructured{}, 0, cache.Indexers{})
		if seen := g.seen(); !replaced(i) || len(seen) != before {
			t.Fatalf("%s: informer %T after the requests %q", c.want, i, seen)
		}
		run(t, i)()
		if seen := g.seen()[before:]; !slices.Contains(seen, c.want) {
			t.Errorf("no list %q: %q", c.want, seen)
		}
	}
	for _, accept := range g.accept {
		if strings.Contains(accept, "protobuf") {
			t.Errorf("a list accepts %s", accept)
		}
	}
}

// TestForControllerRuntimeObjects: the example decides the type, and metadata has the kind of its
// resource, also after a transform.
func TestForControllerRuntimeObjects(t *testing.T) {
	logged(t)
	f := newFakeAPI(t)
	f.put("pods", "a", "p", map[string]any{"spec": map[string]any{"nodeName": "n"}})
	config := f.config()
	create := informer.ForControllerRuntime(config)
	informerOf := func(example runtime.Object) cache.SharedIndexInformer {
		return create(listWatch(t, config, pods(), "", metav1.ListOptions{}), example, 0, cache.Indexers{})
	}
	typed, whole, metadata := informerOf(&corev1.Pod{}), informerOf(&unstructured.Unstructured{}), informerOf(partial("v1", "Pod"))
	err := metadata.SetTransform(func(o any) (any, error) {
		o.(*metav1.PartialObjectMetadata).Annotations = map[string]string{"seen": o.(runtime.Object).GetObjectKind().GroupVersionKind().Kind} //nolint:forcetypeassert // a panic fails the test
		return o, nil
	})
	must(t, err)
	for _, i := range []cache.SharedIndexInformer{typed, whole, metadata} {
		run(t, i)
	}
	get := func(i cache.SharedIndexInformer) any {
		o, _, err := i.GetIndexer().GetByKey("a/p")
		must(t, err)
		return o
	}
	if o, ok := get(typed).(*corev1.Pod); !ok || o.Kind != "" || o.Spec.NodeName != "n" {
		t.Errorf("typed: %#v", get(typed))
	}
	if o, ok := get(whole).(*unstructured.Unstructured); !ok || o.GetKind() != "Pod" {
		t.Errorf("unstructured: %#v", get(whole))
	}
	if o, ok := get(metadata).(*metav1.PartialObjectMetadata); !ok || o.Kind != "Pod" || o.APIVersion != "v1" || o.Annotations["seen"] != "Pod" {
		t.Errorf("metadata: %#v", get(metadata))
	}
}

// TestForControllerRuntimeAgain: an informer may start before the last one of its resource has
// ended, handlers get isInInitialList, and no goroutine remains.
func TestForControllerRuntimeAgain(t *testing.T) {
	logged(t)
	f := newFakeAPI(t)
	f.put("pods", "a", "p", nil)
	config := f.config()
	ignore := goleak.IgnoreCurrent()
	create := informer.ForControllerRuntime(config)
	for range 3 {
		first := create(listWatch(t, config, pods(), "", metav1.ListOptions{}), &corev1.Pod{}, 0, cache.Indexers{})
		endFirst := run(t, first)
		first.RunWithContext(t.Context()) // is refused
		second := create(listWatch(t, config, pods(), "", metav1.ListOptions{}), &corev1.Pod{}, 0, cache.Indexers{})
		var calls recorder
		if _, err := second.AddEventHandler(&calls); err != nil {
			t.Fatal(err)
		}
		endSecond := run(t, second)
		calls.wants(t, "add p true")
		f.put("pods", "a", "q", nil)
		calls.wants(t, "add p true", "add q false")
		f.delete("pods", "a", "q")
		calls.wants(t, "add p true", "add q false", "delete q")
		endFirst()
		endSecond()
	}
	goleak.VerifyNone(t, ignore)
}

// withoutContext is a ListerWatcher of older programs.
type withoutContext struct {
	of cache.ListerWatcherWithContext
}

func (w withoutContext) List(o metav1.ListOptions) (runtime.Object, error) {
	return w.of.ListWithContext(context.Background(), o)
}

func (w withoutContext) Watch(o metav1.ListOptions) (watch.Interface, error) {
	return w.of.WatchWithContext(context.Background(), o)
}

// panicsOnce is a list function that panics on its first call.
func panicsOnce(lw cache.ListerWatcher) cache.ListerWatcher {
	copied := *lw.(*cache.ListWatch) //nolint:forcetypeassert // a panic fails the test
	list, panicked := copied.ListWithContextFunc, false
	copied.ListWithContextFunc = func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
		if !panicked {
			panicked = true
			panic("no")
		}
		return list(ctx, o)
	}
	return &copied
}

// TestForControllerRuntimeFallsBack: if the list is not observed, client-go's informer works
// instead, and one warning says so.
func TestForControllerRuntimeFallsBack(t *testing.T) {
	f := newFakeAPI(t)
	f.put("pods", "a", "p", nil)
	for name, c := range map[string]struct {
		config, observed *rest.Config
		change           func(cache.ListerWatcher) cache.ListerWatcher
	}{
		"another client":  {config: f.config(), observed: f.config()},
		"no context":      {observed: f.config(), change: func(lw cache.ListerWatcher) cache.ListerWatcher { return withoutContext{lw.(*cache.ListWatch)} }}, //nolint:forcetypeassert // a panic fails the test
		"a panic":         {observed: f.config(), change: panicsOnce},
		"no config":       {config: f.config()},
		"unusable config": {config: f.config(), observed: &rest.Config{Host: "http://a b"}},
	} {
		t.Run(name, func(t *testing.T) {
			log := logged(t)
			create := informer.ForControllerRuntime(c.observed)
			lw := listWatch(t, cmp.Or(c.config, c.observed), pods(), "", metav1.ListOptions{})
			if c.change != nil {
				lw = c.change(lw)
			}
			i := create(lw, &unstructured.Unstructured{}, 0, cache.Indexers{})
			if replaced(i) {
				t.Fatalf("informer %T", i)
			}
			run(t, i)
			if _, exists, err := i.GetIndexer().GetByKey("a/p"); !exists || err != nil {
				t.Errorf("the informer has no Pod: %v", err)
			}
			if n := strings.Count(log.String(), "informer not replaced"); n != 1 {
				t.Errorf("%d warnings: %s", n, log)
			}
		})
	}
}

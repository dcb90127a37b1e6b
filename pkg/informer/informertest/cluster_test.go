package informertest_test

import (
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/cache"

	"github.com/informd/informd/pkg/informer"
	"github.com/informd/informd/pkg/informer/informertest"
)

func configs() schema.GroupVersionResource {
	return schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}
}

func things() informertest.Resource {
	return informertest.Resource{Group: "example.com", Version: "v1", Resource: "things", Kind: "Thing"}
}

// config is a ConfigMap.
func config(namespace, name, value string) string {
	return fmt.Sprintf(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"namespace":%q,"name":%q,"labels":{"v":%q}},"data":{"v":%q}}`, namespace, name, value, value)
}

func thing(name string) string {
	return fmt.Sprintf(`{"apiVersion":"example.com/v1","kind":"Thing","metadata":{"namespace":"a","name":%q}}`, name)
}

// mirror is a handler that keeps the state which its calls describe.
type mirror struct {
	mu      sync.Mutex
	objects map[string]string // UID and resourceVersion by key
	deleted map[string]int    // by key
	wrong   []string
}

func newMirror() *mirror {
	return &mirror{objects: make(map[string]string), deleted: make(map[string]int)}
}

func (m *mirror) set(o any, known bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	key, err := cache.MetaNamespaceKeyFunc(o)
	if _, is := m.objects[key]; is != known || err != nil {
		m.wrong = append(m.wrong, fmt.Sprintf("%s known %t (%v)", key, is, err))
	}
	object := o.(metav1.Object) //nolint:forcetypeassert // a panic is counted, and the mirror differs
	m.objects[key] = string(object.GetUID()) + " " + object.GetResourceVersion()
}

func (m *mirror) OnAdd(o any, _ bool) { m.set(o, false) }
func (m *mirror) OnUpdate(_, o any)   { m.set(o, true) }
func (m *mirror) OnDelete(o any) {
	m.mu.Lock()
	defer m.mu.Unlock()
	key, err := cache.DeletionHandlingMetaNamespaceKeyFunc(o)
	if _, known := m.objects[key]; !known || err != nil {
		m.wrong = append(m.wrong, fmt.Sprintf("%s deleted twice (%v)", key, err))
	}
	delete(m.objects, key)
	m.deleted[key]++
}

// follower is an informer with a mirror.
type follower struct {
	*mirror

	cluster  *informertest.Cluster
	of       schema.GroupVersionResource
	informer cache.SharedIndexInformer
	// start starts the informer, and waits until all goroutines wait.
	start func()
}

// run runs a test in a bubble: time passes when all goroutines wait.
func run(t *testing.T, of schema.GroupVersionResource, o informer.Options, metadata bool, test func(t *testing.T, f *follower)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		c := informertest.New()
		o.Logger = slog.New(slog.DiscardHandler)
		factory, err := informer.NewFactory(c.Config(), o)
		must(t, err)
		f := &follower{mirror: newMirror(), cluster: c, of: of, informer: factory.ForResource(of).Informer()}
		if metadata {
			factory.Stop(of)
			f.informer = factory.ForMetadata(of).Informer()
		}
		if _, err := f.informer.AddEventHandler(f); err != nil {
			t.Fatal(err)
		}
		stop := make(chan struct{})
		defer factory.Shutdown()
		defer close(stop)
		f.start = func() { factory.Start(stop); synctest.Wait() }
		test(t, f)
	})
}

// state is UID and resourceVersion of objects by key.
func state(t *testing.T, objects []*unstructured.Unstructured) map[string]string {
	t.Helper()
	all := make(map[string]string)
	for _, o := range objects {
		key, err := cache.MetaNamespaceKeyFunc(o)
		must(t, err)
		all[key] = string(o.GetUID()) + " " + o.GetResourceVersion()
	}
	return all
}

// equal reports the difference between the cluster and what the informer and the handler have.
func (f *follower) equal(t *testing.T) string {
	t.Helper()
	want := f.cluster.Objects(f.of.GroupResource())
	var got []*unstructured.Unstructured
	for _, o := range f.informer.GetStore().List() {
		u, whole := o.(*unstructured.Unstructured)
		if !whole {
			partial := o.(*metav1.PartialObjectMetadata) //nolint:forcetypeassert // a panic fails the test, too
			u = &unstructured.Unstructured{Object: map[string]any{}}
			u.SetNamespace(partial.Namespace)
			u.SetName(partial.Name)
			u.SetUID(partial.UID)
			u.SetResourceVersion(partial.ResourceVersion)
		} else if n := slices.IndexFunc(want, func(w *unstructured.Unstructured) bool { return w.GetUID() == u.GetUID() }); n >= 0 {
			if diff := cmp.Diff(want[n].Object, u.Object); diff != "" {
				return "object (-want +got):\n" + diff
			}
		}
		got = append(got, u)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	return cmp.Diff(state(t, want), state(t, got)) + cmp.Diff(state(t, want), maps.Clone(f.objects)) + strings.Join(f.wrong, "\n")
}

// settles waits until the store and the handler have the state of the cluster.
func (f *follower) settles(t *testing.T) {
	t.Helper()
	for pause, deadline := 10*time.Millisecond, time.Now().Add(3*time.Hour); ; pause = min(2*pause, time.Minute) {
		synctest.Wait()
		diff := f.equal(t)
		if diff == "" && f.informer.HasSynced() {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("synced %t\n%s", f.informer.HasSynced(), diff)
		}
		<-time.After(pause)
	}
}

// TestFaults: after each fault the store equals the state of the cluster, and handlers saw each
// deletion.
func TestFaults(t *testing.T) {
	of := configs().GroupResource()
	refused := func(verb string, code int) func(*informertest.Cluster) {
		return func(c *informertest.Cluster) {
			c.Inject(informertest.Fault{Verb: verb, Resource: of, Code: code, RetryAfter: 3 * time.Second, Times: 3})
			c.Outage(func() { c.Delete(of, "a", "two"); c.Compact() })
		}
	}
	for name, fault := range map[string]func(c *informertest.Cluster){
		"none":                func(c *informertest.Cluster) { c.Delete(of, "a", "two") },
		"disconnect":          func(c *informertest.Cluster) { c.Disconnect(); c.Delete(of, "a", "two") },
		"disconnect one":      func(c *informertest.Cluster) { c.Disconnect(of); c.Delete(of, "a", "two") },
		"outage":              func(c *informertest.Cluster) { c.Outage(func() { c.Delete(of, "a", "two") }) },
		"outage with compact": func(c *informertest.Cluster) { c.Outage(func() { c.Delete(of, "a", "two"); c.Compact() }) },
		"replaced": func(c *informertest.Cluster) {
			c.Outage(func() { c.Delete(of, "a", "two"); c.Put(config("a", "two", "new")); c.Compact() })
		},
		"403 of lists":     refused(informertest.List, http.StatusForbidden),
		"429 of lists":     refused(informertest.List, http.StatusTooManyRequests),
		"429 of watches":   refused(informertest.Watch, http.StatusTooManyRequests),
		"500 of watches":   refused(informertest.Watch, http.StatusInternalServerError),
		"503 of all":       refused("", http.StatusServiceUnavailable),
		"410 of a watch":   refused(informertest.Watch, http.StatusGone),
		"duplicate frames": func(c *informertest.Cluster) { c.Inject(informertest.Fault{Twice: true}); c.Delete(of, "a", "two") },
		"cut frame": func(c *informertest.Cluster) {
			c.Inject(informertest.Fault{Verb: informertest.Watch, Cut: true, Times: 1})
			c.Delete(of, "a", "two")
		},
		"cut list": func(c *informertest.Cluster) {
			c.Inject(informertest.Fault{Verb: informertest.List, Cut: true, Times: 2})
			c.Outage(func() { c.Delete(of, "a", "two"); c.Compact() })
		},
		"no bookmarks": func(c *informertest.Cluster) {
			c.Bookmarks(false)
			c.Outage(func() { c.Delete(of, "a", "two"); c.Compact() })
		},
		"rollback, overtaken": func(c *informertest.Cluster) {
			before := c.Revision()
			c.Put(config("a", "later", "1"))
			c.Put(config("a", "one", "later"))
			synctest.Wait()
			c.Rollback(before) // later changes reach the revision of the watch: an audit finds the rollback
			c.Delete(of, "a", "two")
		},
		"rollback": func(c *informertest.Cluster) {
			before := c.Revision()
			for range 10 {
				c.Put(config("a", "later", "1"))
			}
			synctest.Wait()
			c.Rollback(before)
			c.Delete(of, "a", "two")
		},
		"delay": func(c *informertest.Cluster) {
			hold := make(chan struct{})
			c.Inject(informertest.Fault{Hold: hold})
			c.Delete(of, "a", "two")
			<-time.After(10 * time.Minute)
			close(hold)
		},
	} {
		for mode, metadata := range map[string]bool{"full": false, "metadata": true} {
			t.Run(name+" "+mode, func(t *testing.T) {
				run(t, configs(), informer.Options{}, metadata, func(t *testing.T, f *follower) {
					c := f.cluster
					c.Put(config("a", "one", "1"))
					c.Put(config("a", "two", "1"))
					c.Put(config("b", "one", "1"))
					c.PageLimit(2)
					f.start()
					f.settles(t)
					fault(c)
					c.Put(config("b", "one", "2"))
					c.Put(config("b", "new", "2"))
					f.settles(t)
					if f.deleted["a/two"] != 1 {
						t.Errorf("deletions %v, want one of a/two", f.deleted)
					}
				})
			})
		}
	}
}

// TestPagesExpire: the history is compacted while a list is in its middle.
func TestPagesExpire(t *testing.T) {
	run(t, configs(), informer.Options{}, false, func(t *testing.T, f *follower) {
		c, of, hold := f.cluster, configs().GroupResource(), make(chan struct{})
		for n := range 5 {
			c.Put(config("a", fmt.Sprint("c", n), "1"))
		}
		c.PageLimit(2)
		c.Inject(informertest.Fault{Verb: informertest.Page, Resource: of, Hold: hold})
		f.start()
		c.Delete(of, "a", "c0")
		c.Delete(of, "a", "c4")
		c.Compact()
		close(hold)
		f.settles(t)
		expired := func(r string) bool { return strings.Contains(r, "continue=105") }
		if all := c.Requests(); !slices.ContainsFunc(all, expired) {
			t.Errorf("requests %v, want a page of revision 105", all)
		}
	})
}

// TestCustomResource: it appears, vanishes with its objects, and appears again.
func TestCustomResource(t *testing.T) {
	of := schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "things"}
	run(t, of, informer.Options{}, false, func(t *testing.T, f *follower) {
		f.start()
		if f.informer.HasSynced() {
			t.Error("synced without the resource")
		}
		f.cluster.Serve(things())
		f.cluster.Put(thing("x"))
		f.settles(t)
		f.cluster.Outage(func() { f.cluster.Remove(of.GroupResource()); f.cluster.Compact() })
		f.settles(t)
		if f.deleted["a/x"] != 1 {
			t.Errorf("deletions %v, want one of a/x", f.deleted)
		}
		f.cluster.Serve(things())
		f.cluster.Put(thing("x"))
		f.settles(t)
	})
}

// TestSelectors: an object enters and leaves the selection, also during an outage.
func TestSelectors(t *testing.T) {
	for name, o := range map[string]informer.Options{
		"label": {LabelSelector: "v=in"}, "field": {FieldSelector: "data.v=in"},
		"namespace": {LabelSelector: "v=in", Namespace: "a"}, "name": {LabelSelector: "v=in", FieldSelector: "metadata.name=x,metadata.namespace=a"},
	} {
		t.Run(name, func(t *testing.T) {
			run(t, configs(), o, false, func(t *testing.T, f *follower) {
				c := f.cluster
				c.Put(config("a", "x", "in"))
				f.start()
				keys := func(want ...string) {
					t.Helper()
					for deadline := time.Now().Add(10 * time.Minute); ; {
						synctest.Wait()
						if got := f.informer.GetStore().ListKeys(); slices.Equal(want, got) {
							return
						} else if time.Now().After(deadline) {
							t.Fatalf("keys %v, want %v", got, want)
						}
						<-time.After(time.Second)
					}
				}
				keys("a/x")
				c.Put(config("a", "x", "out"))
				keys()
				c.Outage(func() { c.Put(config("a", "x", "in")); c.Compact() })
				keys("a/x")
				c.Outage(func() { c.Put(config("a", "x", "out")); c.Compact() })
				keys()
				if f.deleted["a/x"] != 2 {
					t.Errorf("deletions %v, want two of a/x", f.deleted)
				}
			})
		})
	}
}

// TestConcurrentUse: changes and faults of several goroutines at once.
func TestConcurrentUse(t *testing.T) {
	run(t, configs(), informer.Options{}, false, func(t *testing.T, f *follower) {
		c, of := f.cluster, configs().GroupResource()
		f.start()
		var all sync.WaitGroup
		for n := range 4 {
			all.Go(func() {
				for i := range 200 {
					<-time.After(100 * time.Millisecond)
					name := fmt.Sprint("c", n, "-", i%20)
					c.Put(config("a", name, fmt.Sprint(i)))
					switch i % 50 {
					case 10:
						c.Delete(of, "a", name)
					case 20:
						c.Disconnect(of)
					case 30:
						c.Outage(func() { c.Delete(of, "a", name); c.Compact() })
					case 40:
						c.Inject(informertest.Fault{Verb: informertest.Watch, Resource: of, Cut: true, Times: 1})
					default:
					}
					_, _ = c.Requests(), c.Watches(of)
				}
			})
		}
		all.Wait()
		f.settles(t)
		if len(f.deleted) < 4 {
			t.Errorf("deletions %v", f.deleted)
		}
	})
}

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

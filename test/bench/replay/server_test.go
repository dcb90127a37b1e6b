package replay_test

import (
	"fmt"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"go.uber.org/goleak"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/informd/informd/test/bench/corpus"
	"github.com/informd/informd/test/bench/replay"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// must ends a test that an error leaves nothing to check in.
func must(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
}

// object is what a test compares of one.
type object struct {
	namespace, name, uid, revision string
}

func objectOf(o metav1.Object) object {
	return object{o.GetNamespace(), o.GetName(), string(o.GetUID()), o.GetResourceVersion()}
}

// start runs a server of some objects and returns it with a client's configuration.
func start(t *testing.T, objects int) (*replay.Server, *corpus.Corpus, *rest.Config) {
	t.Helper()
	c, err := corpus.Pods()
	must(t, err)
	s, err := replay.New(replay.Options{Corpus: c, Objects: objects})
	must(t, err)
	path := filepath.Join(t.TempDir(), "kubeconfig")
	must(t, s.WriteKubeconfig(path))
	config, err := clientcmd.BuildConfigFromFlags("", path)
	must(t, err)
	config.QPS = -1
	client, err := rest.HTTPClientFor(config)
	must(t, err)
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		client.CloseIdleConnections()
	})
	return s, c, config
}

// TestListAndWatchAreOneHistory lists in pages, watches from there, and compares
// with a list of the end.
func TestListAndWatchAreOneHistory(t *testing.T) {
	const objects = 300
	s, c, config := start(t, objects)
	client := dynamic.NewForConfigOrDie(config).Resource(c.Resource)
	state, revision := listAll(t, client, "")
	if len(state) != objects {
		t.Fatalf("%d objects listed, want %d", len(state), objects)
	}
	w, err := client.Watch(t.Context(), metav1.ListOptions{ResourceVersion: revision, AllowWatchBookmarks: true})
	must(t, err)
	defer w.Stop()
	events := objects + objects/2
	s.Play(t.Context(), uint64(events), 0)
	for range events {
		e := next(t, w)
		o, ok := e.Object.(*unstructured.Unstructured)
		if !ok || e.Type != watch.Modified || o.GetKind() != c.Kind {
			t.Fatalf("%s %T", e.Type, e.Object)
		}
		before, known := state[o.GetName()]
		if !known || before.uid != string(o.GetUID()) || before.revision >= o.GetResourceVersion() {
			t.Fatalf("after %v comes %v", before, objectOf(o))
		}
		state[o.GetName()] = objectOf(o)
	}
	after, _ := listAll(t, client, "")
	for name, want := range after {
		if state[name] != want {
			t.Errorf("watched %v, listed %v", state[name], want)
		}
	}
	atBegin, _ := listAll(t, client, revision)
	for name, o := range atBegin {
		if o.revision > revision || after[name].uid != o.uid {
			t.Errorf("listed %v at %s", o, revision)
		}
	}
}

// listAll reads a list in pages, at a revision or now.
func listAll(t *testing.T, client dynamic.ResourceInterface, at string) (objects map[string]object, revision string) {
	t.Helper()
	objects = make(map[string]object)
	options := metav1.ListOptions{Limit: 70, ResourceVersion: at}
	if at != "" {
		options.ResourceVersionMatch = metav1.ResourceVersionMatchExact
	}
	for {
		l, err := client.List(t.Context(), options)
		must(t, err)
		for i := range l.Items {
			objects[l.Items[i].GetName()] = objectOf(&l.Items[i])
		}
		if l.GetContinue() == "" {
			return objects, l.GetResourceVersion()
		}
		options = metav1.ListOptions{Limit: 70, Continue: l.GetContinue()}
	}
}

// next waits for one event.
func next(t *testing.T, w watch.Interface) watch.Event {
	t.Helper()
	select {
	case e, ok := <-w.ResultChan():
		if !ok || e.Type == watch.Error {
			t.Fatalf("the watch ended: %v", e)
		}
		return e
	case <-time.After(time.Minute):
		t.Fatal("no event within a minute")
	}
	return watch.Event{}
}

// TestWatchList begins a watch with all objects.
func TestWatchList(t *testing.T) {
	const objects, events = 130, 20
	s, c, config := start(t, objects)
	yes := true
	w, err := dynamic.NewForConfigOrDie(config).Resource(c.Resource).Watch(t.Context(), metav1.ListOptions{
		SendInitialEvents: &yes, ResourceVersionMatch: metav1.ResourceVersionMatchNotOlderThan, AllowWatchBookmarks: true,
	})
	must(t, err)
	defer w.Stop()
	seen := make(map[string]bool)
	for range objects {
		e := next(t, w)
		o, err := metaOf(e)
		if err != nil || e.Type != watch.Added || len(o.GetManagedFields()) == 0 {
			t.Fatalf("%s %T %v", e.Type, e.Object, err)
		}
		seen[o.GetName()] = true
	}
	e := next(t, w)
	o, err := metaOf(e)
	if err != nil || e.Type != watch.Bookmark || o.GetAnnotations()[metav1.InitialEventsAnnotationKey] != "true" || len(seen) != objects {
		t.Fatalf("%s %v after %d objects: %v", e.Type, o, len(seen), err)
	}
	s.Play(t.Context(), events, 2000)
	for range events {
		e := next(t, w)
		if o, err := metaOf(e); err != nil || e.Type != watch.Modified || !seen[o.GetName()] {
			t.Fatalf("%s %v %v", e.Type, o, err)
		}
	}
}

func metaOf(e watch.Event) (metav1.Object, error) {
	o, ok := e.Object.(metav1.Object)
	if !ok {
		return nil, fmt.Errorf("%T has no metadata", e.Object)
	}
	return o, nil
}

func TestNamespaceOnly(t *testing.T) {
	s, c, config := start(t, 2*corpus.Namespaces)
	client := dynamic.NewForConfigOrDie(config).Resource(c.Resource).Namespace(corpus.Namespace(7))
	objects, revision := listAll(t, client, "")
	if len(objects) != 2 {
		t.Fatalf("%v", objects)
	}
	w, err := client.Watch(t.Context(), metav1.ListOptions{ResourceVersion: revision})
	must(t, err)
	defer w.Stop()
	s.Play(t.Context(), 4*corpus.Namespaces, 0)
	for range 4 {
		if o, err := metaOf(next(t, w)); err != nil || o.GetNamespace() != corpus.Namespace(7) {
			t.Fatalf("%v %v", o, err)
		}
	}
}

func TestUnknownPathsAreCounted(t *testing.T) {
	s, _, config := start(t, 10)
	client := dynamic.NewForConfigOrDie(config)
	gone := corpus.Corpus{}.Resource
	gone.Version, gone.Resource = "v1", "widgets"
	if _, err := client.Resource(gone).List(t.Context(), metav1.ListOptions{}); err == nil {
		t.Fatal("widgets were listed")
	}
	if unknown := s.Stats().Unknown; !slices.Contains([]int{unknown["/api/v1/widgets"]}, 1) {
		t.Errorf("%v", unknown)
	}
}

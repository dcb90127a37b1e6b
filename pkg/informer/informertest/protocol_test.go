package informertest_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/json"

	"github.com/informd/informd/pkg/informer/informertest"
)

// must ends a test that an error leaves nothing to check in.
func must(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
}

// answer is what a request got.
type answer struct {
	io.Reader

	code       int
	retryAfter string
}

// get sends a request. The body is closed when the test ends.
func get(t *testing.T, c *informertest.Cluster, path, accept string) answer {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, c.Config().Host+path, http.NoBody)
	must(t, err)
	r.Header.Set("Accept", accept)
	got, err := (&http.Client{Transport: c}).Do(r)
	must(t, err)
	t.Cleanup(func() { got.Body.Close() })
	return answer{got.Body, got.StatusCode, got.Header.Get("Retry-After")}
}

// body reads an answer as JSON, and its code.
func body(t *testing.T, a answer) (o *unstructured.Unstructured, code int) {
	t.Helper()
	text, err := io.ReadAll(a)
	o = &unstructured.Unstructured{}
	if err == nil {
		err = json.Unmarshal(text, &o.Object)
	}
	must(t, err)
	return o, a.code
}

// names are those of the items of a list.
func names(o *unstructured.Unstructured) (all []string) {
	items, _, _ := unstructured.NestedSlice(o.Object, "items")
	for _, item := range items {
		u := unstructured.Unstructured{Object: item.(map[string]any)} //nolint:forcetypeassert // a panic fails the test, too
		all = append(all, u.GetNamespace()+"/"+u.GetName())
	}
	return all
}

// three is a cluster with three ConfigMaps, at revision 103.
func three() *informertest.Cluster {
	c := informertest.New()
	c.Put(config("a", "one", "1"))
	c.Put(config("a", "two", "2"))
	c.Put(config("b", "one", "1"))
	return c
}

func TestLists(t *testing.T) {
	c := three()
	c.Serve(things())
	c.Put(thing("x"))
	c.Put(config("a", "two", "3"))
	c.Delete(configs().GroupResource(), "a", "one") // 107
	const all, metadata = "/api/v1/configmaps", "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
	for path, want := range map[string]struct {
		accept, kind, rv string
		names            []string
	}{
		all: {kind: "ConfigMapList", rv: "107", names: []string{"a/two", "b/one"}},
		all + "?resourceVersion=103&resourceVersionMatch=Exact": {kind: "ConfigMapList", rv: "103", names: []string{"a/one", "a/two", "b/one"}},
		all + "?resourceVersion=103":                            {kind: "ConfigMapList", rv: "107", names: []string{"a/two", "b/one"}},
		all + "?resourceVersion=0":                              {kind: "ConfigMapList", rv: "107", names: []string{"a/two", "b/one"}},
		"/api/v1/namespaces/b/configmaps":                       {kind: "ConfigMapList", rv: "107", names: []string{"b/one"}},
		all + "?labelSelector=v%3D3":                            {kind: "ConfigMapList", rv: "107", names: []string{"a/two"}},
		all + "?labelSelector=v+in+(1,3),!w":                    {kind: "ConfigMapList", rv: "107", names: []string{"a/two", "b/one"}},
		all + "?fieldSelector=metadata.name%3Done":              {kind: "ConfigMapList", rv: "107", names: []string{"b/one"}},
		all + "?fieldSelector=metadata.namespace%3Da,data.v!=1": {kind: "ConfigMapList", rv: "107", names: []string{"a/two"}},
		all + "?limit=10":                                       {accept: metadata, kind: "PartialObjectMetadataList", rv: "107", names: []string{"a/two", "b/one"}},
		"/apis/example.com/v1/things":                           {kind: "ThingList", rv: "107", names: []string{"a/x"}},
	} {
		t.Run(path, func(t *testing.T) {
			o, code := body(t, get(t, c, path, want.accept))
			rv, _, _ := unstructured.NestedString(o.Object, "metadata", "resourceVersion")
			if diff := cmp.Diff(want.names, names(o)); diff != "" || code != http.StatusOK || o.GetKind() != want.kind || rv != want.rv {
				t.Errorf("%d %s at %s, items (-want +got):\n%s", code, o.GetKind(), rv, diff)
			}
		})
	}
}

func TestPages(t *testing.T) {
	c := three()
	first, _ := body(t, get(t, c, "/api/v1/configmaps?limit=2", ""))
	list := func(o *unstructured.Unstructured) (next string, left int64) {
		next, _, _ = unstructured.NestedString(o.Object, "metadata", "continue")
		left, _, _ = unstructured.NestedInt64(o.Object, "metadata", "remainingItemCount")
		return next, left
	}
	next, left := list(first)
	if diff := cmp.Diff([]string{"a/one", "a/two"}, names(first)); diff != "" || left != 1 {
		t.Errorf("%d left, items (-want +got):\n%s", left, diff)
	}
	c.Put(config("b", "later", "1"))
	second, _ := body(t, get(t, c, "/api/v1/configmaps?limit=2&continue="+next, ""))
	if diff := cmp.Diff([]string{"b/one"}, names(second)); diff != "" {
		t.Errorf("items of the second page (-want +got):\n%s", diff)
	}
	c.Compact()
	expired, code := body(t, get(t, c, "/api/v1/configmaps?limit=2&continue="+next, ""))
	if code != http.StatusGone {
		t.Errorf("code %d for an expired token", code)
	}
	next, _ = list(expired)
	now, _ := body(t, get(t, c, "/api/v1/configmaps?continue="+next, ""))
	if diff := cmp.Diff([]string{"b/later", "b/one"}, names(now)); diff != "" {
		t.Errorf("items of the newest state behind the first page (-want +got):\n%s", diff)
	}
	c.PageLimit(1)
	if o, _ := body(t, get(t, c, "/api/v1/configmaps", "")); len(names(o)) != 1 {
		t.Errorf("items %v, want one", names(o))
	}
}

func TestRefusals(t *testing.T) {
	c := three()
	c.Compact()
	c.Inject(informertest.Fault{Verb: informertest.Get, Resource: schema.GroupResource{Resource: "secrets"}, Code: 429, RetryAfter: 1500 * time.Millisecond, Times: 1})
	for path, want := range map[string]struct {
		code   int
		reason string
	}{
		"/api/v1/configmaps?resourceVersion=102&resourceVersionMatch=Exact": {410, "Expired"},
		"/api/v1/configmaps?resourceVersion=104":                            {504, "Timeout"},
		"/api/v1/configmaps?resourceVersion=x":                              {400, "BadRequest"},
		"/api/v1/configmaps?watch=true&resourceVersion=x":                   {400, "BadRequest"},
		"/api/v1/configmaps?continue=x":                                     {400, "BadRequest"},
		"/api/v1/configmaps?labelSelector=!!":                               {400, "BadRequest"},
		"/api/v1/configmaps?watch=true&sendInitialEvents=true":              {422, "Invalid"},
		"/api/v1/namespaces/a/configmaps/none":                              {404, "NotFound"},
		"/api/v1/others":                                                    {404, "NotFound"},
		"/api/v1/namespaces/a/secrets/s":                                    {429, "TooManyRequests"},
	} {
		t.Run(path, func(t *testing.T) {
			a := get(t, c, path, "")
			o, code := body(t, a)
			reason, _, _ := unstructured.NestedString(o.Object, "reason")
			if code != want.code || reason != want.reason || o.GetKind() != "Status" {
				t.Errorf("%d %s %s", code, reason, o.GetKind())
			}
			if (code == 429) != (a.retryAfter == "2") {
				t.Errorf("Retry-After %q", a.retryAfter)
			}
		})
	}
	if _, code := body(t, get(t, c, "/api/v1/namespaces/a/secrets/s", "")); code != http.StatusNotFound {
		t.Errorf("code %d after the fault", code)
	}
	for _, path := range []string{"/apis/example.com", "/apis/example.com/v1", "/version"} { // as of an API server
		a := get(t, c, path, "")
		if text, err := io.ReadAll(a); string(text) != "404 page not found\n" || err != nil || a.code != http.StatusNotFound {
			t.Errorf("%s: %d %q (%v)", path, a.code, text, err)
		}
	}
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, c.Config().Host+"/api/v1/configmaps", strings.NewReader("{}"))
	must(t, err)
	posted, err := c.RoundTrip(r)
	must(t, err)
	defer posted.Body.Close()
	if posted.StatusCode != http.StatusMethodNotAllowed {
		t.Errorf("code %d for POST", posted.StatusCode)
	}
}

func TestDiscovery(t *testing.T) {
	c := informertest.New(things(), informertest.Resource{Group: "example.com", Version: "v1beta1", Resource: "things", Kind: "Thing"})
	names := func(path, field, name string) (all []string) {
		a := get(t, c, path, "")
		if a.code == http.StatusNotFound {
			return nil
		}
		o, _ := body(t, a)
		items, _, _ := unstructured.NestedSlice(o.Object, field)
		for _, item := range items {
			all = append(all, item.(map[string]any)[name].(string)) //nolint:forcetypeassert // a panic fails the test, too
		}
		return all
	}
	seen := func() []string {
		return append(names("/apis", "groups", "name"), append(names("/apis/example.com", "versions", "version"), names("/apis/example.com/v1", "resources", "name")...)...)
	}
	if diff := cmp.Diff([]string{"apiextensions.k8s.io", "apiregistration.k8s.io", "example.com", "v1", "v1beta1", "things"}, seen()); diff != "" {
		t.Errorf("discovery (-want +got):\n%s", diff)
	}
	c.Put(thing("x"))
	if o, code := body(t, get(t, c, "/apis/example.com/v1beta1/namespaces/a/things/x", "")); o.GetAPIVersion() != "example.com/v1beta1" || code != http.StatusOK {
		t.Errorf("%d %v", code, o)
	}
	c.Remove(schema.GroupResource{Group: "example.com", Resource: "things"})
	if diff := cmp.Diff([]string{"apiextensions.k8s.io", "apiregistration.k8s.io"}, seen()); diff != "" {
		t.Errorf("discovery after the end of the resource (-want +got):\n%s", diff)
	}
}

// frames opens a watch, and returns its next frame as "TYPE name", or its error.
func frames(t *testing.T, c *informertest.Cluster, query string) func() string {
	t.Helper()
	lines := bufio.NewReader(get(t, c, "/api/v1/configmaps?watch=true"+query, ""))
	return func() string {
		line, err := lines.ReadBytes('\n')
		var frame struct {
			Type   string                     `json:"type"`
			Object *unstructured.Unstructured `json:"object"`
		}
		if err == nil {
			frame.Object = &unstructured.Unstructured{}
			err = json.Unmarshal(line, &frame)
		}
		if err != nil {
			return err.Error()
		}
		return strings.TrimSpace(fmt.Sprint(frame.Type, " ", frame.Object.GetName()+"@"+frame.Object.GetResourceVersion()))
	}
}

func wants(t *testing.T, next func() string, want ...string) {
	t.Helper()
	for _, one := range want {
		if got := next(); got != one {
			t.Fatalf("frame %q, want %q", got, one)
		}
	}
}

func TestWatches(t *testing.T) {
	c := three()
	next := frames(t, c, "&resourceVersion=101&allowWatchBookmarks=true&labelSelector=v%3D1")
	wants(t, next, "ADDED one@103", "BOOKMARK @103")
	c.Put(config("a", "two", "1"))
	wants(t, next, "ADDED two@104", "BOOKMARK @104")
	c.Put(config("a", "two", "2"))
	c.Bookmarks(false)
	wants(t, next, "DELETED two@105")
	c.Delete(configs().GroupResource(), "b", "one")
	wants(t, next, "DELETED one@106")
	c.Bookmark()
	wants(t, next, "BOOKMARK @106")
	c.Inject(informertest.Fault{Twice: true, Times: 1})
	c.Put(config("a", "one", "1"))
	c.Put(config("a", "one", "1"))
	wants(t, next, "MODIFIED one@107", "MODIFIED one@107", "MODIFIED one@108")
	c.Inject(informertest.Fault{Verb: informertest.Watch, Cut: true, Times: 1})
	c.Put(config("a", "one", "1"))
	wants(t, next, io.ErrUnexpectedEOF.Error())

	wants(t, frames(t, c, ""), "ADDED one@109", "ADDED two@105")
	c.Compact()
	wants(t, frames(t, c, "&resourceVersion=108"), "ERROR @", io.EOF.Error())
	next = frames(t, c, "&resourceVersion=109")
	c.Disconnect(configs().GroupResource())
	wants(t, next, io.EOF.Error())
	next = frames(t, c, "&resourceVersion=109")
	c.Rollback(108)
	wants(t, next, io.EOF.Error())
	if rev := c.Revision(); rev != 108 {
		t.Errorf("revision %d after the rollback", rev)
	}
}

// TestWatchEnds: after its time, with its context, and with its body.
func TestWatchEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := three()
		began := time.Now()
		wants(t, frames(t, c, "&resourceVersion=103&timeoutSeconds=7"), io.EOF.Error())
		if took := time.Since(began); took != 7*time.Second {
			t.Errorf("the watch lasted %v", took)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, c.Config().Host+"/api/v1/configmaps?watch=1&resourceVersion=103", http.NoBody)
		must(t, err)
		open, err := c.RoundTrip(r)
		must(t, err)
		if n := c.Watches(configs().GroupResource()); n != 2 { // the first one is not closed yet
			t.Errorf("%d watches, want two", n)
		}
		if _, err := io.ReadAll(open.Body); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("error %v", err)
		}
		if err := open.Body.Close(); err != nil || c.Watches(configs().GroupResource()) != 1 {
			t.Errorf("%d watches after one was closed (%v)", c.Watches(configs().GroupResource()), err)
		}
		hold := make(chan struct{})
		c.Inject(informertest.Fault{Hold: hold})
		if _, err := c.RoundTrip(r); !errors.Is(err, context.DeadlineExceeded) { //nolint:bodyclose // there is none
			t.Errorf("error %v", err)
		}
	})
}

func TestObjects(t *testing.T) {
	c := informertest.New()
	pods := schema.GroupResource{Resource: "pods"}
	c.Put(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "one", Labels: map[string]string{"x": "1", "y": "1"}}, Spec: corev1.PodSpec{NodeName: "n"}})
	c.Patch(map[string]any{"kind": "Pod", "apiVersion": "v1", "metadata": map[string]any{"namespace": "a", "name": "one", "labels": map[string]any{"y": nil, "z": "1"}}})
	one := c.Objects(pods)[0]
	node, _, _ := unstructured.NestedString(one.Object, "spec", "nodeName")
	if diff := cmp.Diff(map[string]string{"x": "1", "z": "1"}, one.GetLabels()); diff != "" || node != "n" {
		t.Errorf("node %q, labels (-want +got):\n%s", node, diff)
	}
	before := one.GetUID()
	c.Put([]byte(`{"apiVersion":"v1","kind":"Pod","metadata":{"namespace":"a","name":"one"}}`))
	if o := c.Objects(pods)[0]; o.GetUID() != before || o.GetLabels() != nil || o.GetResourceVersion() != "103" {
		t.Errorf("object %v after it was replaced", o)
	}
	if !c.Delete(pods, "a", "one") || c.Delete(pods, "a", "one") {
		t.Error("Delete does not report whether there was an object")
	}
	c.Put(one)
	if o := c.Objects(pods)[0]; o.GetUID() != before {
		t.Errorf("UID %s, want the one that was given", o.GetUID())
	}
	for name, wrong := range map[string]func(){
		"no JSON":     func() { c.Put("{") },
		"no object":   func() { c.Put([]byte("null")) },
		"another":     func() { c.Put(7) },
		"no kind":     func() { c.Put("{}") },
		"not served":  func() { c.Put(thing("x")) },
		"no name":     func() { c.Put(`{"kind":"Pod","metadata":{"namespace":"a"}}`) },
		"a namespace": func() { c.Put(`{"kind":"Node","metadata":{"namespace":"a","name":"n"}}`) },
		"no version":  func() { c.Serve(informertest.Resource{Resource: "x", Kind: "X"}) },
		"the future":  func() { c.Rollback(1000) },
		// With such a fault, a test would pass without it.
		"unknown verb": func() { c.Inject(informertest.Fault{Verb: "WATCH", Code: 500}) },
		"no error":     func() { c.Inject(informertest.Fault{Code: 200}) },
		"no effect":    func() { c.Inject(informertest.Fault{Verb: informertest.List}) },
	} {
		t.Run(name, func(t *testing.T) {
			defer func() {
				if fault := recover(); fault == nil || !strings.HasPrefix(fmt.Sprint(fault), "informertest: ") {
					t.Errorf("panic %v", fault)
				}
			}()
			wrong()
		})
	}
}

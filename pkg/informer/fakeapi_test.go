package informer_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/client-go/rest"
)

// fakeAPI is an API server with Pods, ConfigMaps, Secrets and Namespaces: discovery, lists in one page, and
// watches from a history that can be compacted.
type fakeAPI struct {
	server *httptest.Server

	mu        sync.Mutex
	changed   chan struct{} // closed and replaced with each change
	rev       int
	compacted int
	cuts      int // ends all watches when it changes
	objects   map[string]map[string]any
	history   []frame
	denied    bool
}

// frame is one event of a watch.
type frame struct {
	rev            int
	resource, kind string
	object         []byte
}

func newFakeAPI(t *testing.T) *fakeAPI {
	t.Helper()
	f := &fakeAPI{rev: 100, changed: make(chan struct{}), objects: make(map[string]map[string]any)}
	f.server = httptest.NewServer(f)
	t.Cleanup(func() {
		f.do(func() { f.cuts++ })
		f.server.Close()
	})
	return f
}

func (f *fakeAPI) config() *rest.Config { return &rest.Config{Host: f.server.URL} }

func (f *fakeAPI) do(change func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change()
	close(f.changed)
	f.changed = make(chan struct{})
}

// put creates or changes an object: more is merged into it.
func (f *fakeAPI) put(resource, namespace, name string, more map[string]any) {
	f.do(func() {
		f.rev++
		key := resource + "/" + namespace + "/" + name
		kind, o := "MODIFIED", maps.Clone(f.objects[key])
		if o == nil {
			kind, o = "ADDED", map[string]any{"metadata": map[string]any{"namespace": namespace, "name": name, "uid": fmt.Sprintf("uid-%d", f.rev)}}
		}
		meta := maps.Clone(o["metadata"].(map[string]any)) //nolint:forcetypeassert // made above
		meta["resourceVersion"] = strconv.Itoa(f.rev)
		if m, ok := more["metadata"].(map[string]any); ok {
			maps.Copy(meta, m)
		}
		maps.Copy(o, more)
		o["metadata"], o["apiVersion"], o["kind"] = meta, "v1", kindOf(resource)
		f.objects[key] = o
		f.record(resource, kind, o)
	})
}

// kindOf returns the kind of a resource that the server has, "" for others.
func kindOf(resource string) string {
	return map[string]string{"pods": "Pod", "configmaps": "ConfigMap", "secrets": "Secret", "namespaces": "Namespace"}[resource]
}

func (f *fakeAPI) delete(resource, namespace, name string) {
	f.do(func() {
		f.rev++
		key := resource + "/" + namespace + "/" + name
		o := maps.Clone(f.objects[key])
		delete(f.objects, key)
		meta := maps.Clone(o["metadata"].(map[string]any)) //nolint:forcetypeassert // made by put
		meta["resourceVersion"] = strconv.Itoa(f.rev)
		o["metadata"] = meta
		f.record(resource, "DELETED", o)
	})
}

func (f *fakeAPI) record(resource, kind string, o map[string]any) {
	text, _ := json.Marshal(o) //nolint:errchkjson // maps of texts
	f.history = append(f.history, frame{f.rev, resource, kind, text})
}

func (f *fakeAPI) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	parts := strings.Split(strings.Trim(r.URL.Path, "/"), "/")
	switch resource := parts[len(parts)-1]; {
	case r.URL.Path == "/api/v1":
		fmt.Fprint(w, `{"kind":"APIResourceList","apiVersion":"v1","groupVersion":"v1","resources":[`+
			`{"name":"pods","namespaced":true,"kind":"Pod","verbs":["list","watch","get"]},`+
			`{"name":"namespaces","namespaced":false,"kind":"Namespace","verbs":["list","watch","get"]},`+
			`{"name":"secrets","namespaced":true,"kind":"Secret","verbs":["list","watch","get"]},`+
			`{"name":"configmaps","namespaced":true,"kind":"ConfigMap","verbs":["list","watch","get"]}]}`)
	case r.URL.Path == "/api":
		fmt.Fprint(w, `{"kind":"APIVersions","versions":["v1"]}`)
	case kindOf(resource) == "":
		w.WriteHeader(http.StatusNotFound)
		fmt.Fprint(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"NotFound","code":404}`)
	case r.URL.Query().Get("watch") != "":
		f.watch(w, r, resource)
	default:
		f.list(w, r, resource)
	}
}

func (f *fakeAPI) list(w http.ResponseWriter, r *http.Request, resource string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.denied && resource == "secrets" {
		w.WriteHeader(http.StatusForbidden)
		fmt.Fprint(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Forbidden","message":"no","code":403}`)
		return
	}
	exact, _ := strconv.Atoi(r.URL.Query().Get("resourceVersion"))
	if r.URL.Query().Get("resourceVersionMatch") == "Exact" && exact < f.compacted {
		w.WriteHeader(http.StatusGone)
		fmt.Fprint(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Expired","message":"compacted","code":410}`)
		return
	}
	name, named := strings.CutPrefix(r.URL.Query().Get("fieldSelector"), "metadata.name=")
	items := []any{}
	for _, key := range slices.Sorted(maps.Keys(f.objects)) {
		if strings.HasPrefix(key, resource+"/") && (!named || strings.HasSuffix(key, "/"+name)) {
			items = append(items, f.objects[key])
		}
	}
	kind := kindOf(resource) + "List"
	if strings.Contains(r.Header.Get("Accept"), "PartialObjectMetadata") {
		kind = "PartialObjectMetadataList"
		for i := range items {
			items[i] = map[string]any{"metadata": items[i].(map[string]any)["metadata"]} //nolint:forcetypeassert // made by put
		}
	}
	_ = json.NewEncoder(w).Encode(map[string]any{
		"kind": kind, "apiVersion": "v1", "metadata": map[string]any{"resourceVersion": strconv.Itoa(f.rev)}, "items": items,
	})
}

func (f *fakeAPI) watch(w http.ResponseWriter, r *http.Request, resource string) {
	from, _ := strconv.Atoi(r.URL.Query().Get("resourceVersion"))
	partial := strings.Contains(r.Header.Get("Accept"), "PartialObjectMetadata")
	f.mu.Lock()
	cuts := f.cuts
	if from < f.compacted {
		f.mu.Unlock()
		fmt.Fprint(w, `{"type":"ERROR","object":{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Expired","code":410,"message":"too old resource version"}}`+"\n")
		return
	}
	for f.cuts == cuts {
		for _, e := range f.history {
			if e.rev > from && e.resource == resource {
				fmt.Fprintf(w, `{"type":%q,"object":%s}`+"\n", e.kind, trim(e.object, partial))
			}
		}
		from = max(from, f.rev)
		fmt.Fprintf(w, `{"type":"BOOKMARK","object":{"kind":%q,"apiVersion":"v1","metadata":{"resourceVersion":"%d"}}}`+"\n", kindOf(resource), from)
		changed := f.changed
		f.mu.Unlock()
		w.(http.Flusher).Flush() //nolint:forcetypeassert // the server's own
		select {
		case <-changed:
		case <-time.After(time.Second): // the next bookmark
		case <-r.Context().Done():
		}
		f.mu.Lock()
		if r.Context().Err() != nil {
			break
		}
	}
	f.mu.Unlock()
}

func trim(object []byte, partial bool) []byte {
	if !partial {
		return object
	}
	var o map[string]any
	_ = json.Unmarshal(object, &o)
	text, _ := json.Marshal(map[string]any{"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": o["metadata"]}) //nolint:errchkjson // texts
	return text
}

// revision is the newest resourceVersion.
func (f *fakeAPI) revision() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return strconv.Itoa(f.rev)
}

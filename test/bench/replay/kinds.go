package replay

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

// kindsPerGroup is how many custom resources a group has: providers of Crossplane have
// between 5 and 100.
const kindsPerGroup = 20

// kinds are custom resources with one object each.
type kinds struct {
	mu       sync.Mutex
	revision uint64
	all      []kindState
}

// kindState is the state of one custom resource.
type kindState struct {
	revision uint64 // of its object
	watches  map[chan struct{}]struct{}
}

func newKinds(count int) *kinds {
	k := &kinds{revision: firstRevision, all: make([]kindState, count)}
	for i := range k.all {
		k.revision++
		k.all[i] = kindState{revision: k.revision, watches: make(map[chan struct{}]struct{})}
	}
	return k
}

// Kind returns the group, version and plural name of a custom resource.
func Kind(i int) schema.GroupVersionResource {
	return schema.GroupVersionResource{
		Group: fmt.Sprintf("g%03d.kinds.example.com", i/kindsPerGroup), Version: "v1", Resource: fmt.Sprintf("kinds%05d", i),
	}
}

// Touch updates the object of a custom resource, and returns its new revision.
func (s *Server) Touch(i int) uint64 {
	k := s.kinds
	k.mu.Lock()
	defer k.mu.Unlock()
	k.revision++
	k.all[i].revision = k.revision
	for wake := range k.all[i].watches {
		select {
		case wake <- struct{}{}:
		default:
		}
	}
	return k.revision
}

// KindWatches returns how many watches of custom resources are open.
func (s *Server) KindWatches() (open int) {
	s.kinds.mu.Lock()
	defer s.kinds.mu.Unlock()
	for i := range s.kinds.all {
		open += len(s.kinds.all[i].watches)
	}
	return open
}

// serveKind answers a list or a watch of a custom resource, and reports whether the path
// is of one.
func (s *Server) serveKind(w http.ResponseWriter, r *http.Request) bool {
	_, resource, _ := strings.Cut(r.URL.Path, ".kinds.example.com/v1/")
	number, ok := strings.CutPrefix(resource[strings.LastIndexByte(resource, '/')+1:], "kinds")
	i, err := strconv.Atoi(number)
	if !ok || err != nil || i >= len(s.kinds.all) {
		return false
	}
	if r.URL.Query().Get("watch") == "true" || r.URL.Query().Get("watch") == "1" {
		s.watchKind(w, r, i)
		return true
	}
	s.kinds.mu.Lock()
	object, revision := s.kinds.object(i), s.kinds.revision
	s.kinds.mu.Unlock()
	items := []unstructured.Unstructured{object}
	if name, named := strings.CutPrefix(r.URL.Query().Get("fieldSelector"), "metadata.name="); named && name != object.GetName() {
		items = items[:0]
	}
	list := unstructured.UnstructuredList{Items: items, Object: map[string]any{
		"apiVersion": object.GetAPIVersion(), "kind": object.GetKind() + "List", "metadata": map[string]any{"resourceVersion": formatRevision(revision)},
	}}
	if metadataOnly(r) {
		list.SetAPIVersion("meta.k8s.io/v1")
		list.SetKind("PartialObjectMetadataList")
	}
	text, err := list.MarshalJSON()
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return true
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(text) // a client that is gone misses nothing
	return true
}

// object is that of a custom resource. The caller holds mu.
func (k *kinds) object(i int) unstructured.Unstructured {
	var o unstructured.Unstructured
	o.SetAPIVersion(Kind(i).GroupVersion().String())
	o.SetKind(fmt.Sprintf("Kind%05d", i))
	o.SetNamespace(metav1.NamespaceDefault)
	o.SetName("only")
	o.SetUID(types.UID(fmt.Sprintf("4d3a1f7e-0c55-4c1a-9a53-2f9f4f1%05d", i)))
	o.SetResourceVersion(formatRevision(k.all[i].revision))
	return o
}

// watchKind is one watch of a custom resource.
func (s *Server) watchKind(w http.ResponseWriter, r *http.Request, i int) {
	at, err := revisionOf(r.URL.Query().Get("resourceVersion"))
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	wake := make(chan struct{}, 1)
	wake <- struct{}{}
	k := s.kinds
	k.mu.Lock()
	k.all[i].watches[wake] = struct{}{}
	k.mu.Unlock()
	defer func() {
		k.mu.Lock()
		delete(k.all[i].watches, wake)
		k.mu.Unlock()
	}()
	w.Header().Set("Content-Type", "application/json")
	flush := http.NewResponseController(w).Flush
	tick := time.NewTicker(bookmarkEvery)
	defer tick.Stop()
	for flush() == nil {
		frame := ""
		select {
		case <-r.Context().Done():
			return
		case <-tick.C:
			frame = k.bookmark(i)
		case <-wake:
			frame, at = k.since(i, at)
		}
		if _, err := w.Write([]byte(frame)); err != nil {
			return
		}
	}
}

// since returns the frame for the state of a custom resource after a revision, and the
// revision of that state.
func (k *kinds) since(i int, at uint64) (frame string, revision uint64) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.all[i].revision <= at {
		return "", at
	}
	object := k.object(i)
	text, err := object.MarshalJSON()
	if err != nil {
		panic(err) // it is made of strings
	}
	return fmt.Sprintf(`{"type":"MODIFIED","object":%s}`+"\n", strings.TrimSpace(string(text))), k.all[i].revision
}

// bookmark returns the frame that shows how far a watch has come.
func (k *kinds) bookmark(i int) string {
	k.mu.Lock()
	defer k.mu.Unlock()
	return fmt.Sprintf(`{"type":"BOOKMARK","object":{"kind":"Kind%05d","apiVersion":%q,"metadata":{"resourceVersion":"%d"}}}`+"\n",
		i, Kind(i).GroupVersion().String(), k.revision)
}

// kindGroups are the documents of the groups of custom resources, by path.
func (s *Server) kindDocument(path string) (document any, ok bool) {
	for from := 0; from < len(s.kinds.all); from += kindsPerGroup {
		gv := Kind(from).GroupVersion()
		switch path {
		case "/apis/" + gv.Group:
			version := metav1.GroupVersionForDiscovery{GroupVersion: gv.String(), Version: gv.Version}
			return metav1.APIGroup{
				TypeMeta: metav1.TypeMeta{Kind: "APIGroup", APIVersion: "v1"}, Name: gv.Group,
				Versions: []metav1.GroupVersionForDiscovery{version}, PreferredVersion: version,
			}, true
		case "/apis/" + gv.String():
			list := metav1.APIResourceList{TypeMeta: metav1.TypeMeta{Kind: "APIResourceList", APIVersion: "v1"}, GroupVersion: gv.String()}
			for i := from; i < min(from+kindsPerGroup, len(s.kinds.all)); i++ {
				list.APIResources = append(list.APIResources, metav1.APIResource{
					Name: Kind(i).Resource, Kind: fmt.Sprintf("Kind%05d", i), Namespaced: true, Verbs: metav1.Verbs{"get", "list", "watch"},
					StorageVersionHash: strconv.Itoa(i),
				})
			}
			return list, true
		}
	}
	return nil, false
}

// aggregated is the document of all groups, as API servers have had it since 1.27.
func (s *Server) aggregated() any {
	var groups []any
	for from := 0; from < len(s.kinds.all); from += kindsPerGroup {
		gv := Kind(from).GroupVersion()
		var resources []any
		for i := from; i < min(from+kindsPerGroup, len(s.kinds.all)); i++ {
			resources = append(resources, map[string]any{
				"resource": Kind(i).Resource, "scope": "Namespaced", "verbs": []string{"get", "list", "watch"},
				"responseKind": map[string]string{"group": gv.Group, "version": gv.Version, "kind": fmt.Sprintf("Kind%05d", i)},
			})
		}
		groups = append(groups, map[string]any{
			"metadata": map[string]string{"name": gv.Group},
			"versions": []any{map[string]any{"version": gv.Version, "freshness": "Current", "resources": resources}},
		})
	}
	return map[string]any{"kind": "APIGroupDiscoveryList", "apiVersion": "apidiscovery.k8s.io/v2", "items": groups}
}

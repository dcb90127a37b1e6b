package replay

import (
	"net/http"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// discover answers with a document about what is served, or says that the path is
// none of them. The aggregated documents are there with custom resources only; clients
// do without.
func (s *Server) discover(w http.ResponseWriter, request *http.Request) bool {
	path := request.URL.Path
	if document, ok := s.kindDocument(path); ok {
		writeJSON(w, document)
		return true
	}
	r := s.options.Corpus.Resource
	version := metav1.GroupVersionForDiscovery{GroupVersion: r.GroupVersion().String(), Version: r.Version}
	group := metav1.APIGroup{Name: r.Group, Versions: []metav1.GroupVersionForDiscovery{version}, PreferredVersion: version}
	switch {
	case path == "/apis" && s.options.Kinds > 0 && strings.Contains(request.Header.Get("Accept"), "APIGroupDiscoveryList"):
		writeJSON(w, s.aggregated())
	case path == "/version":
		writeJSON(w, map[string]string{"major": "1", "minor": "37", "gitVersion": "v1.37.2"})
	case path == "/api":
		writeJSON(w, metav1.APIVersions{TypeMeta: metav1.TypeMeta{Kind: "APIVersions"}, Versions: []string{"v1"}})
	case path == "/apis":
		list := metav1.APIGroupList{TypeMeta: metav1.TypeMeta{Kind: "APIGroupList", APIVersion: "v1"}}
		if r.Group != "" {
			list.Groups = append(list.Groups, group)
		}
		writeJSON(w, list)
	case path == "/api/v1", r.Group != "" && path == "/apis/"+r.GroupVersion().String():
		writeJSON(w, s.resources(strings.TrimPrefix(strings.TrimPrefix(path, "/api/"), "/apis/")))
	case r.Group != "" && path == "/apis/"+r.Group:
		group.TypeMeta = metav1.TypeMeta{Kind: "APIGroup", APIVersion: "v1"}
		writeJSON(w, group)
	case path == "/api/v1/namespaces/kube-system":
		system := metav1.PartialObjectMetadata{
			TypeMeta:   metav1.TypeMeta{Kind: "Namespace", APIVersion: "v1"},
			ObjectMeta: metav1.ObjectMeta{Name: metav1.NamespaceSystem, UID: types.UID("4d3a1f7e-0c55-4c1a-9a53-2f9f4f1b0001"), ResourceVersion: "4"},
		}
		if metadataOnly(request) {
			system.TypeMeta = metav1.TypeMeta{Kind: "PartialObjectMetadata", APIVersion: "meta.k8s.io/v1"}
		}
		writeJSON(w, system)
	default:
		return false
	}
	return true
}

// resources are those of one version of a group.
func (s *Server) resources(groupVersion string) metav1.APIResourceList {
	c := s.options.Corpus
	list := metav1.APIResourceList{TypeMeta: metav1.TypeMeta{Kind: "APIResourceList", APIVersion: "v1"}, GroupVersion: groupVersion}
	verbs := metav1.Verbs{"get", "list", "watch"}
	if groupVersion == c.Resource.GroupVersion().String() {
		list.APIResources = append(list.APIResources, metav1.APIResource{
			Name: c.Resource.Resource, Kind: c.Kind, Namespaced: true, Verbs: verbs, StorageVersionHash: "cmVwbGF5MQ==",
		})
	}
	if groupVersion == "v1" {
		list.APIResources = append(list.APIResources, metav1.APIResource{Name: "namespaces", Kind: "Namespace", Verbs: verbs, StorageVersionHash: "cmVwbGF5Mg=="})
	}
	return list
}

// isEmpty reports whether a path is of a resource that is served and has no objects.
func isEmpty(path string) bool {
	switch path {
	case "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", "/apis/apiregistration.k8s.io/v1/apiservices", "/api/v1/namespaces":
		return true
	default:
		return false
	}
}

func (s *Server) listNothing(w http.ResponseWriter) {
	writeJSON(w, metav1.PartialObjectMetadataList{
		TypeMeta: metav1.TypeMeta{Kind: "PartialObjectMetadataList", APIVersion: "meta.k8s.io/v1"},
		ListMeta: metav1.ListMeta{ResourceVersion: formatRevision(s.history.now())}, Items: []metav1.PartialObjectMetadata{},
	})
}

// watchNothing is a watch on which nothing ever happens.
func (s *Server) watchNothing(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	_ = http.NewResponseController(w).Flush() // the client is gone if it fails, which the context says as well
	<-r.Context().Done()
}

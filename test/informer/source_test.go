package informer_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/json"

	"github.com/informd/informd/pkg/informer/informertest"
	"github.com/informd/informd/test/cluster"
	"github.com/informd/informd/test/e2e"
)

const configMaps = "/api/v1/namespaces/" + namespace + "/configmaps"

// server is an API server, real or fake, and how a test changes it.
type server struct {
	host    string
	client  *http.Client
	put     func(name, value string)
	remove  func(name string)
	compact func()            // forgets all history, and ends all watches
	marks   map[string]string // resourceVersions that the test has named
}

// send sends a GET request. <name> in the query stands for a named resourceVersion.
func (s *server) send(ctx context.Context, t *testing.T, path, accept string) *http.Response {
	t.Helper()
	for name, rv := range s.marks {
		path = strings.ReplaceAll(path, "<"+name+">", url.QueryEscape(rv))
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, s.host+path, http.NoBody)
	e2e.Must(t, err)
	r.Header.Set("Accept", accept)
	answer, err := s.client.Do(r)
	e2e.Must(t, err)
	return answer
}

// shown is what a test compares of an object: no UIDs and no revisions.
func shown(o map[string]any) string {
	u := unstructured.Unstructured{Object: o}
	value, _, _ := unstructured.NestedString(o, "data", "v")
	reason, _, _ := unstructured.NestedString(o, "reason")
	code, _, _ := unstructured.NestedFieldNoCopy(o, "code")
	return strings.Join([]string{u.GetAPIVersion(), u.GetKind(), u.GetName(), value, u.GetLabels()["v"], reason, fmt.Sprint(code)}, " ")
}

// get describes the answer to a request, and names its resourceVersion and its continue token.
func (s *server) get(t *testing.T, path, accept, name string) []string {
	t.Helper()
	answer := s.send(t.Context(), t, path, accept)
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	e2e.Must(t, err)
	var o map[string]any
	got := []string{fmt.Sprint(path, " ", answer.StatusCode, " ", answer.Header.Get("Content-Type"))}
	if err := json.Unmarshal(text, &o); err != nil {
		return append(got, string(text)) // no Status
	}
	got = append(got, shown(o))
	u := unstructured.UnstructuredList{Object: o}
	if left := u.GetRemainingItemCount(); u.GetContinue() != "" || left != nil {
		got = append(got, fmt.Sprint("continued, others: ", left != nil && *left > 0))
	}
	items, _, _ := unstructured.NestedSlice(o, "items")
	for _, item := range items {
		got = append(got, shown(item.(map[string]any))) //nolint:forcetypeassert // a panic fails the test, too
	}
	if name != "" {
		s.marks[name], s.marks[name+" next"] = u.GetResourceVersion(), u.GetContinue()
	}
	return got
}

// watch describes the first frames of a watch, without bookmarks.
func (s *server) watch(t *testing.T, query, accept string, frames int, change func()) []string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	answer := s.send(ctx, t, configMaps+"?watch=true&"+query, accept)
	defer answer.Body.Close()
	if change != nil {
		change()
	}
	got := []string{fmt.Sprint(query, " ", answer.StatusCode)}
	for lines := bufio.NewReader(answer.Body); len(got) <= frames; {
		line, err := lines.ReadBytes('\n')
		if err != nil {
			return append(got, err.Error())
		}
		var frame struct {
			Type   string
			Object map[string]any
		}
		if err := json.Unmarshal(line, &frame); err != nil {
			return append(got, err.Error())
		}
		if frame.Type != "BOOKMARK" {
			got = append(got, frame.Type+" "+shown(frame.Object))
		}
	}
	return got
}

// script makes the same changes and requests at any server, and describes the answers.
func script(t *testing.T, s *server) (got [][]string) {
	t.Helper()
	const list, partial = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1", "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
	add := func(answer []string) { got = append(got, answer) }
	s.put("one", "1")
	s.put("two", "2")
	s.put("three", "1")
	add(s.get(t, configMaps, "", "first"))
	add(s.get(t, configMaps+"?limit=2", "", "page"))
	s.put("one", "2")
	s.remove("two")
	s.put("two", "1")
	add(s.get(t, configMaps+"?limit=2&continue=<page next>", "", ""))
	add(s.get(t, configMaps+"?resourceVersion=<first>&resourceVersionMatch=Exact", "", ""))
	add(s.get(t, configMaps, list, "second"))
	add(s.get(t, configMaps+"/one", "", ""))
	for _, query := range []string{
		"labelSelector=v%3D1", "labelSelector=v+notin+(1)", "fieldSelector=metadata.name%3Dtwo", "fieldSelector=metadata.namespace%3Dx",
		"labelSelector=!!", "continue=x", "resourceVersion=x", "resourceVersion=0", "resourceVersion=<first>",
		"resourceVersion=1000000&resourceVersionMatch=Exact", "resourceVersion=1000000",
	} {
		add(s.get(t, configMaps+"?"+query, "", ""))
	}
	for _, path := range []string{configMaps + "/none", "/api/v1/none", "/apis/none.example.com", "/apis/none.example.com/v1", "/apis/apps/v1/none"} {
		add(s.get(t, path, "", ""))
	}
	add(s.watch(t, "resourceVersion=<first>", "", 3, nil))
	add(s.watch(t, "resourceVersion=<first>", partial, 3, nil))
	add(s.watch(t, "resourceVersion=<first>&labelSelector=v%3D1", "", 2, nil))
	add(s.watch(t, "resourceVersion=<second>&labelSelector=v%3D1&timeoutSeconds=1", "", 1, nil))
	add(s.watch(t, "resourceVersion=<second>&fieldSelector=metadata.name%3Dtwo", "", 2, func() {
		s.put("one", "3")
		s.put("two", "3")
		s.remove("two")
	}))
	add(s.watch(t, "", "", 2, nil))
	add(s.watch(t, "resourceVersion=0", "", 2, nil))
	s.compact()
	add(s.get(t, configMaps+"?resourceVersion=<first>&resourceVersionMatch=Exact", "", ""))
	add(s.get(t, configMaps+"?limit=2&continue=<page next>", "", ""))
	add(s.watch(t, "resourceVersion=<first>", "", 2, nil))
	return got
}

// TestFakeAnswersAsTheServer: informertest answers a script of changes and requests as a real API
// server does.
func TestFakeAnswersAsTheServer(t *testing.T) {
	c := cluster.Start(t, cluster.Options{})
	api, configs := client(t, c.RESTConfig()).CoreV1().ConfigMaps(namespace), schema.GroupResource{Resource: "configmaps"}
	object := func(name, value string) *corev1.ConfigMap {
		return &corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: map[string]string{"v": value}}, Data: map[string]string{"v": value},
		}
	}
	config := c.RESTConfig()
	genuine := &server{host: config.Host, client: e2e.HTTPClient(t, config), marks: map[string]string{}}
	genuine.put = func(name, value string) {
		_, err := api.Update(t.Context(), object(name, value), metav1.UpdateOptions{})
		if err != nil {
			_, err = api.Create(t.Context(), object(name, value), metav1.CreateOptions{})
		}
		e2e.Must(t, err)
	}
	genuine.remove = func(name string) { e2e.Must(t, api.Delete(t.Context(), name, metav1.DeleteOptions{})) }
	genuine.compact = func() { // the watch cache of the API server has older revisions, until it restarts
		_, err := c.Compact(t.Context())
		e2e.Must(t, err)
		e2e.Must(t, c.APIServer(0).Kill())
		e2e.Must(t, c.APIServer(0).Start(t.Context()))
	}

	f := informertest.New()
	fake := &server{host: f.Config().Host, client: &http.Client{Transport: f}, marks: map[string]string{}}
	fake.put = func(name, value string) { f.Put(object(name, value)) }
	fake.remove = func(name string) { f.Delete(configs, namespace, name) }
	fake.compact = func() { f.Outage(f.Compact) }

	if diff := cmp.Diff(script(t, genuine), script(t, fake)); diff != "" {
		t.Errorf("answers (-real +fake):\n%s", diff)
	}
}

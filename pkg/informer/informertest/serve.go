package informertest

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// request is a request of a client.
type request struct {
	*http.Request

	verb            string
	of              Resource
	namespace, name string
	query           map[string]string
	labels          labels.Selector
	fields          fields.Selector
}

// read returns the request that an HTTP request makes. The error is a selector's.
func read(r *http.Request) (*request, error) {
	one := &request{Request: r, query: make(map[string]string)}
	for name, values := range r.URL.Query() {
		one.query[name] = values[0]
	}
	parts := strings.Split(strings.Trim(r.URL.Path, "/"), "/")
	if parts[0] == "api" {
		parts = slices.Insert(parts, 1, "") // the core group
	}
	parts = append(parts, make([]string, max(0, 3-len(parts)))...)
	one.of.Group, one.of.Version, parts = parts[1], parts[2], parts[3:]
	if len(parts) > 2 && parts[0] == "namespaces" {
		one.namespace, parts = parts[1], parts[2:]
	}
	switch {
	case len(parts) == 0:
		one.verb = Discovery
		return one, nil
	case len(parts) > 1:
		one.verb, one.name = Get, strings.Join(parts[1:], "/")
	case one.query["watch"] == "true" || one.query["watch"] == "1":
		one.verb = Watch
	case one.query["continue"] != "":
		one.verb = Page
	default:
		one.verb = List
	}
	one.of.Resource = parts[0]
	var err error
	if one.labels, err = labels.Parse(one.query["labelSelector"]); err != nil {
		return one, err
	}
	one.fields, err = fields.ParseSelector(one.query["fieldSelector"])
	return one, err
}

// metadataOnly reports whether the client wants metadata only.
func (r *request) metadataOnly() bool {
	return strings.Contains(r.Header.Get("Accept"), "as=PartialObjectMetadata")
}

// selects reports whether the request selects a state of an object; nil is none.
func (r *request) selects(o *object) bool {
	if o == nil || r.namespace != "" && r.namespace != o.namespace {
		return false
	}
	u := unstructured.Unstructured{Object: o.fields}
	return r.labels.Matches(labels.Set(u.GetLabels())) && r.fields.Matches(fieldsByPath(o.fields))
}

// fieldsByPath implements [fields.Fields] for the scalars of an object, by path.
type fieldsByPath map[string]any

func (f fieldsByPath) lookup(path string) (any, bool) {
	value, found, err := unstructured.NestedFieldNoCopy(f, strings.Split(path, ".")...)
	return value, found && err == nil
}

// Has implements [fields.Fields].
func (f fieldsByPath) Has(path string) bool {
	_, found := f.lookup(path)
	return found
}

// Get implements [fields.Fields].
func (f fieldsByPath) Get(path string) string {
	if value, found := f.lookup(path); found {
		return fmt.Sprint(value)
	}
	return ""
}

// RoundTrip implements [http.RoundTripper]: it answers a request of a client. It waits while an outage
// or a fault holds the request; the error is that of the request's context.
func (c *Cluster) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Body != nil {
		defer r.Body.Close()
	}
	one, invalid := read(r)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.requests = append(c.requests, r.Method+" "+r.URL.RequestURI())
	for {
		var held <-chan struct{}
		if f := c.fault(one, holds); f != nil {
			held = f.Hold
		} else if c.outages == 0 {
			break
		}
		if err := c.wait(r, held); err != nil {
			return nil, err
		}
	}
	answer := c.answer(one, invalid)
	answer.Request = r
	return answer, nil
}

// wait waits for a change, or until held is closed. The caller holds the lock.
func (c *Cluster) wait(r *http.Request, held <-chan struct{}) error {
	changed := c.changed
	c.mu.Unlock()
	defer c.mu.Lock()
	select {
	case <-changed:
	case <-held:
	case <-r.Context().Done():
	}
	return r.Context().Err()
}

func (c *Cluster) answer(r *request, invalid error) *http.Response {
	if f := c.fault(r, refuses); f != nil {
		f.left--
		return refusal(f.Code, "refused by a fault of informertest", f.RetryAfter)
	}
	switch {
	case r.Method != http.MethodGet:
		return refusal(http.StatusMethodNotAllowed, "this simulated API server is read-only; tests write with Cluster.Put", 0)
	case invalid != nil:
		return refusal(http.StatusBadRequest, invalid.Error(), 0)
	case r.verb == Discovery:
		return c.discover(r)
	}
	n := slices.IndexFunc(c.served, func(s Resource) bool {
		return s.groupVersion() == r.of.groupVersion() && s.Resource == r.of.Resource
	})
	if n < 0 {
		return refusal(http.StatusNotFound, "the server could not find the requested resource", 0)
	}
	r.of = c.served[n]
	switch r.verb {
	case Get:
		o := c.store.objects[key{r.of.groupResource(), r.namespace, r.name}]
		if o == nil {
			return refusal(http.StatusNotFound, fmt.Sprintf("%s %q not found", r.of.Resource, r.name), 0)
		}
		return answerJSON(http.StatusOK, r.render(o, o.rev))
	case Watch:
		return c.watch(r)
	default:
		return c.list(r)
	}
}

func answerJSON(code int, body any) *http.Response {
	text, err := json.Marshal(body)
	if err != nil {
		panic(fmt.Sprintf("informertest: answer is no JSON: %v", err)) // objects came as JSON
	}
	return respond(code, io.NopCloser(bytes.NewReader(text)))
}

func respond(code int, body io.ReadCloser) *http.Response {
	return &http.Response{
		StatusCode: code, Status: fmt.Sprint(code, " ", http.StatusText(code)), Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: http.Header{"Content-Type": {"application/json"}}, Body: body, ContentLength: -1,
	}
}

// render returns an object as the client wants it, at a revision.
func (r *request) render(o *object, rev uint64) map[string]any {
	all := o.fields
	if rev != o.rev {
		all = withMetadata(all, maps.Clone(metadataOf(all)), rev)
	}
	if r.metadataOnly() {
		return map[string]any{"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": metadataOf(all)}
	}
	if version := r.of.groupVersion().String(); version != all["apiVersion"] {
		all = maps.Clone(all)
		all["apiVersion"] = version
	}
	return all
}

// list answers a request for a page of a list.
func (c *Cluster) list(r *request) *http.Response {
	rev, after := c.store.rev, ""
	if token := r.query["continue"]; token != "" {
		at, key, _ := strings.Cut(token, ":")
		given, err := strconv.ParseUint(at, 10, 64)
		if err != nil {
			return refusal(http.StatusBadRequest, "continue key is not valid", 0)
		}
		after = key
		if given != 0 {
			rev = given
		}
	} else if given := r.query["resourceVersion"]; given != "" {
		at, err := strconv.ParseUint(given, 10, 64)
		if err != nil {
			return refusal(http.StatusBadRequest, "resourceVersion is not valid", 0)
		}
		if r.query["resourceVersionMatch"] == string(metav1.ResourceVersionMatchExact) || at > rev {
			rev = at
		}
	}
	switch {
	case rev < c.store.compacted:
		expired := status(http.StatusGone, "The provided continue parameter or resourceVersion is too old", 0)
		if after != "" {
			expired.Continue = "0:" + after // the client may continue with the newest state
		}
		return answerJSON(http.StatusGone, expired)
	case rev > c.store.rev:
		return refusal(http.StatusGatewayTimeout, fmt.Sprintf("Too large resource version: %d, current: %d", rev, c.store.rev), 0)
	}
	meta, items := c.page(r, rev, after)
	body := map[string]any{"kind": r.of.Kind + "List", "apiVersion": r.of.groupVersion().String(), "metadata": meta, "items": items}
	if r.metadataOnly() {
		body["kind"], body["apiVersion"] = "PartialObjectMetadataList", "meta.k8s.io/v1"
	}
	answer := answerJSON(http.StatusOK, body)
	if f := c.fault(r, cuts); f != nil {
		f.left--
		text, _ := io.ReadAll(answer.Body) // it is in memory
		answer.Body = io.NopCloser(io.MultiReader(bytes.NewReader(text[:len(text)/2]), broken{}))
	}
	return answer
}

// broken is a reader over a connection that broke.
type broken struct{}

func (broken) Read([]byte) (int, error) { return 0, io.ErrUnexpectedEOF }

// page returns the metadata and the items of one page, which begins behind the path of an object.
func (c *Cluster) page(r *request, rev uint64, after string) (meta map[string]any, items []any) {
	limit, _ := strconv.Atoi(r.query["limit"]) // 0: none
	if c.pageLimit > 0 && (limit == 0 || limit > c.pageLimit) {
		limit = c.pageLimit
	}
	meta = map[string]any{"resourceVersion": strconv.FormatUint(rev, 10)}
	items = []any{}
	all := c.store.at(r.of.groupResource(), rev)
	if r.namespace != "" {
		all = slices.DeleteFunc(slices.Clone(all), func(o *object) bool { return o.namespace != r.namespace })
	}
	begin, found := slices.BinarySearchFunc(all, after, func(o *object, path string) int { return cmp.Compare(o.path(), path) })
	if found {
		begin++
	}
	last := ""
	for n, o := range all[begin:] {
		if !r.selects(o) {
			continue
		}
		if limit > 0 && len(items) == limit {
			meta["continue"] = fmt.Sprint(rev, ":", last)
			if r.labels.Empty() && r.fields.Empty() { // as API servers do
				meta["remainingItemCount"] = len(all) - begin - n
			}
			break
		}
		last = o.path()
		item := r.render(o, o.rev)
		if !r.of.custom() && !r.metadataOnly() { // API servers leave these out
			item = maps.Clone(item)
			delete(item, "kind")
			delete(item, "apiVersion")
		}
		items = append(items, item)
	}
	return meta, items
}

// discover answers a request for the groups, a group or the resources of a version.
func (c *Cluster) discover(r *request) *http.Response {
	core := strings.HasPrefix(r.URL.Path, "/api/") || r.URL.Path == "/api"
	switch {
	case !core && !strings.HasPrefix(r.URL.Path, "/apis"): // see below
	case core && r.of.Version == "":
		return answerJSON(http.StatusOK, metav1.APIVersions{TypeMeta: metav1.TypeMeta{Kind: "APIVersions"}, Versions: []string{"v1"}})
	case !core && r.of.Group == "":
		all := metav1.APIGroupList{TypeMeta: metav1.TypeMeta{Kind: "APIGroupList", APIVersion: "v1"}, Groups: []metav1.APIGroup{}}
		for _, s := range c.served {
			if s.Group != "" && !slices.ContainsFunc(all.Groups, func(g metav1.APIGroup) bool { return g.Name == s.Group }) {
				all.Groups = append(all.Groups, c.group(s.Group))
			}
		}
		return answerJSON(http.StatusOK, all)
	case r.of.Version == "":
		if g := c.group(r.of.Group); len(g.Versions) > 0 {
			g.TypeMeta = metav1.TypeMeta{Kind: "APIGroup", APIVersion: "v1"}
			return answerJSON(http.StatusOK, g)
		}
	default:
		if all := c.resources(r.of.groupVersion()); len(all.APIResources) > 0 {
			return answerJSON(http.StatusOK, all)
		}
	}
	answer := respond(http.StatusNotFound, io.NopCloser(strings.NewReader("404 page not found\n")))
	answer.Header.Set("Content-Type", "text/plain; charset=utf-8") // as API servers answer for unknown paths
	return answer
}

func (c *Cluster) group(name string) metav1.APIGroup {
	g := metav1.APIGroup{Name: name}
	for _, s := range c.served {
		version := metav1.GroupVersionForDiscovery{GroupVersion: s.groupVersion().String(), Version: s.Version}
		if s.Group == name && !slices.Contains(g.Versions, version) {
			g.Versions = append(g.Versions, version)
		}
	}
	if len(g.Versions) > 0 {
		g.PreferredVersion = g.Versions[0]
	}
	return g
}

func (c *Cluster) resources(of schema.GroupVersion) metav1.APIResourceList {
	all := metav1.APIResourceList{TypeMeta: metav1.TypeMeta{Kind: "APIResourceList", APIVersion: "v1"}, GroupVersion: of.String()}
	for _, s := range c.served {
		if s.groupVersion() == of {
			all.APIResources = append(all.APIResources, metav1.APIResource{
				Name: s.Resource, Kind: s.Kind, Namespaced: !s.ClusterWide, Verbs: metav1.Verbs{"get", "list", "watch"},
			})
		}
	}
	return all
}

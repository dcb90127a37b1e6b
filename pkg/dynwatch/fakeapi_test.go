package dynwatch_test

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
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/client-go/rest"
)

// fakeAPI is an API server with one namespaced resource, things.example.com, the
// Namespaces, and a history that can expire, be compacted or be rolled back. What it does was
// seen on a real one; the tests in test/e2e hold the real one to it.
type fakeAPI struct {
	server *httptest.Server

	mu      sync.Mutex
	changed chan struct{} // closed and replaced whenever something changes
	history []change      // by ascending revision
	rev     uint64
	uids    int
	// oldest is from where a watch can begin, compacted up to where etcd has
	// forgotten.
	oldest, compacted uint64
	// elsewhere moves the revisions of Namespaces, as if they were in another store.
	elsewhere int64
	// unselecting: field selectors are ignored.
	unselecting bool
	// nameless: 410 does not name the oldest revision, as for core Events.
	nameless bool
	// generation ends all watches when it moves.
	generation int
	// served: discovery knows the resource, in these versions, the preferred one
	// first.
	served   bool
	versions []string
	// definitions say what is served; nil: the API server has no such resources.
	definitions *fakeDefinitions
	// groups are all that are served; nil: the one resource is.
	groups *fakeGroups
	// denied are the verbs that the credentials do not allow, "list" or, in one
	// namespace, "list a"; of other resources than things they are "list namespaces".
	// review answers questions about that instead of the API.
	denied map[string]bool
	review func(w http.ResponseWriter, r *http.Request)
	// refuse answers a request instead of the API, if it returns true, and proxy also one for definitions.
	refuse, proxy func(w http.ResponseWriter, r *http.Request) bool
	// mangle changes a frame or an item on its way out.
	mangle func(string) string
	// left says which frames no watch brings.
	left func(frame string) bool
	// lists changes the state that lists show, as a wrong watch cache does. A list of one
	// name at an exact revision is served by etcd, whatever the cache holds.
	lists func(state map[string]change, exact bool)
	// mute holds back frames and bookmarks of every watch, frozen those of the
	// watches that are open.
	mute bool
	// slow says which watches are held back, too.
	slow func(r *http.Request) bool
	// starved is the revision at which the watch cache stopped, as it gets nothing from
	// etcd any more: watches stay open, with bookmarks at it. The fresh ones, opened after
	// so many, are of another API server if that is not 0.
	// Stale says of which watches this is true, nil of all.
	starved        uint64
	fresh          int
	stale          func(r *http.Request) bool
	opened, frozen int
	// pulse is how often a watch brings a bookmark.
	pulse time.Duration
	// breakAfter ends the next watch that brings frames after so many of them.
	breakAfter int
	// page bounds the objects of one answer to a list, 0: as many as the request asks for.
	page     int
	requests []string
}

// change is one revision: the object's new state, or its end.
type change struct {
	rev           uint64
	ns, name, uid string
	label         string
	deleted       bool
	created       bool
}

func (c change) key() string { return c.ns + "/" + c.name }

// namespacesPath is where the Namespaces are, which are changes without a namespace.
const namespacesPath = "/api/v1/namespaces"

func (c change) isNamespace() bool { return c.ns == "" }

func metadataOnly(r *http.Request) bool {
	return strings.Contains(r.Header.Get("Accept"), "PartialObjectMetadata")
}

// newFakeAPI has objects: "<namespace>/<name> <label>".
func newFakeAPI(t *testing.T, objects ...string) *fakeAPI {
	t.Helper()
	f := &fakeAPI{rev: 100, served: true, versions: []string{"v1"}, changed: make(chan struct{}), pulse: 20 * time.Millisecond}
	f.server = httptest.NewServer(http.HandlerFunc(f.serve))
	t.Cleanup(func() {
		f.cut()
		f.server.Close()
	})
	for _, o := range objects {
		key, label, _ := strings.Cut(o, " ")
		ns, name, _ := strings.Cut(key, "/")
		f.put(ns, name, label)
	}
	return f
}

func (f *fakeAPI) config() *rest.Config { return &rest.Config{Host: f.server.URL} }

// do changes the fake under its lock and wakes the watches.
func (f *fakeAPI) do(change func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change()
	close(f.changed)
	f.changed = make(chan struct{})
}

// put creates or updates an object; del deletes it. Both return the revision.
func (f *fakeAPI) put(ns, name, label string) (rev uint64) {
	f.do(func() {
		f.rev++
		c := change{rev: f.rev, ns: ns, name: name, label: label}
		if old, ok := f.stateAt(f.rev - 1)[c.key()]; ok {
			c.uid = old.uid
		} else {
			f.uids++
			c.uid, c.created = fmt.Sprintf("uid-%d", f.uids), true
		}
		f.history = append(f.history, c)
		rev = f.rev
	})
	return rev
}

func (f *fakeAPI) del(ns, name string) {
	f.do(func() {
		old, ok := f.stateAt(f.rev)[ns+"/"+name]
		if !ok {
			return
		}
		f.rev++
		old.rev, old.deleted, old.created = f.rev, true, false
		f.history = append(f.history, old)
	})
}

// putTimes changes an object so many times, putMany creates or changes a/x0, a/x1 and so on.
func (f *fakeAPI) putTimes(times int, ns, name, label string) {
	for range times {
		f.put(ns, name, label)
	}
}

func (f *fakeAPI) putMany(objects int, label string) {
	for i := range objects {
		f.put("a", fmt.Sprint("x", i), label)
	}
}

// load writes in the background, every so often, until stop is called.
func (f *fakeAPI) load(every time.Duration, write func(i int)) (stop func()) {
	ended := make(chan struct{})
	var writing sync.WaitGroup
	writing.Go(func() {
		for i := 0; ; i++ {
			select {
			case <-ended:
				return
			case <-time.After(every):
				write(i)
			}
		}
	})
	return func() { close(ended); writing.Wait() }
}

// expire deletes objects at one revision, as the end of an etcd lease does.
func (f *fakeAPI) expire(ns string, names ...string) {
	f.do(func() {
		state := f.stateAt(f.rev)
		f.rev++
		for _, name := range names {
			if old, ok := state[ns+"/"+name]; ok {
				old.rev, old.deleted, old.created = f.rev, true, false
				f.history = append(f.history, old)
			}
		}
	})
}

// freeze makes the open watches dead without ending them.
func (f *fakeAPI) freeze() { f.do(func() { f.frozen = f.opened }) }

// cut ends all watches.
func (f *fakeAPI) cut() { f.do(func() { f.generation++ }) }

// forget is what a restart of the API server does: watches end, and the watch
// cache begins anew.
func (f *fakeAPI) forget() { f.do(func() { f.generation++; f.oldest = f.rev }) }

// compact makes etcd forget everything before now.
func (f *fakeAPI) compact() { f.do(func() { f.compacted = f.rev }) }

// rollBack restores the state as of a revision, as from a backup of etcd.
func (f *fakeAPI) rollBack(to uint64) {
	f.do(func() {
		f.generation++
		f.history = slices.DeleteFunc(f.history, func(c change) bool { return c.rev > to })
		f.rev, f.oldest = to, to
	})
}

// stateAt replays the history up to a revision.
func (f *fakeAPI) stateAt(rev uint64) map[string]change {
	state := make(map[string]change)
	for _, c := range f.history {
		if c.rev > rev {
			break
		}
		if c.deleted {
			delete(state, c.key())
		} else {
			state[c.key()] = c
		}
	}
	return state
}

func (f *fakeAPI) state() map[string]change {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.stateAt(f.rev)
}

func (f *fakeAPI) changes() []change {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.history)
}

func (f *fakeAPI) revisionNow() uint64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.rev
}

func (f *fakeAPI) requestsWith(part string) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	n := 0
	for _, r := range f.requests {
		if strings.Contains(r, part) {
			n++
		}
	}
	return n
}

// intercept has a function answer requests instead of the API, if it returns true, and admit ends that.
func (f *fakeAPI) intercept(refuse func(w http.ResponseWriter, r *http.Request) bool) {
	f.do(func() { f.refuse = refuse })
}

func (f *fakeAPI) admit() { f.intercept(nil) }

// deny takes permissions away: see denied.
func (f *fakeAPI) deny(all ...string) {
	f.do(func() {
		f.denied = make(map[string]bool)
		for _, one := range all {
			f.denied[one] = true
		}
	})
}

// forEver is more often than anybody asks.
const forEver = 1 << 30

// keepRefusing answers such requests that way from now on.
func (f *fakeAPI) keepRefusing(what func(*http.Request) bool, answer func(w http.ResponseWriter)) {
	f.refuseTimes(forEver, what, answer)
}

// refuseTimes answers so many of such requests that way, and counts all of them.
func (f *fakeAPI) refuseTimes(
	times int64, what func(*http.Request) bool, answer func(w http.ResponseWriter),
) (seen *atomic.Int64) {
	seen = new(atomic.Int64)
	f.intercept(func(w http.ResponseWriter, r *http.Request) bool {
		refused := what(r) && seen.Add(1) <= times
		if refused {
			answer(w)
		}
		return refused
	})
	return seen
}

// before has something happen before each of such requests is answered, of which n is the number.
func (f *fakeAPI) before(what func(*http.Request) bool, happens func(r *http.Request, n int64)) {
	var seen atomic.Int64
	f.intercept(func(_ http.ResponseWriter, r *http.Request) bool {
		if what(r) {
			happens(r, seen.Add(1))
		}
		return false
	})
}

// unemittable has the fake send objects that have one of the parts as no JSON, by a value of the spec or by a brace.
func (f *fakeAPI) unemittable(parts ...string) { f.damage(`"spec":{"rev":x`, parts) }

func (f *fakeAPI) unbalanced(parts ...string) { f.damage(`"spec":{{"rev":`, parts) }

func (f *fakeAPI) damage(spec string, parts []string) {
	f.do(func() {
		f.mangle = func(s string) string {
			if slices.ContainsFunc(parts, func(part string) bool { return strings.Contains(s, part) }) {
				return strings.Replace(s, `"spec":{"rev":`, spec, 1)
			}
			return s
		}
	})
}

func (f *fakeAPI) serve(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	f.mu.Lock()
	proxy, refuse, served, review, versions := f.proxy, f.refuse, f.served, f.review, slices.Clone(f.versions)
	f.mu.Unlock()
	if proxy != nil && proxy(w, r) || f.serveDefinitions(w, r) {
		return
	}
	f.mu.Lock()
	f.requests = append(f.requests, r.URL.String())
	f.mu.Unlock()
	if strings.HasSuffix(r.URL.Path, "/selfsubjectaccessreviews") {
		if review == nil {
			review = f.serveReview
		}
		review(w, r)
		return
	}
	if refuse != nil && refuse(w, r) || f.serveGroups(w, r) {
		return
	}
	if r.URL.Path == namespacesPath {
		w, r = f.otherStore(w, r)
		if f.denies(verbOf(r), "namespaces") {
			writeStatus(w, 403, "Forbidden", "namespaces is forbidden: you cannot "+verbOf(r)+" it")
			return
		}
		f.serveObjects(w, r, "")
		return
	}
	if name, ok := strings.CutPrefix(r.URL.Path, namespacesPath+"/"); ok && !strings.Contains(name, "/") {
		f.serveNamespace(w, name)
		return
	}
	if r.URL.Path == "/apis" {
		f.serveGroupList(w, served)
		return
	}
	const group = "/apis/example.com"
	path, ok := strings.CutPrefix(r.URL.Path, group)
	version, path, _ := strings.Cut(strings.TrimPrefix(path, "/"), "/")
	ns := ""
	if rest, ok := strings.CutPrefix(path, "namespaces/"); ok {
		ns, path, _ = strings.Cut(rest, "/")
	}
	switch {
	case !ok || !served || version != "" && !slices.Contains(versions, version):
		writeStatus(w, 404, "NotFound", "no such thing")
	case version == "":
		var all []string
		for _, v := range versions {
			all = append(all, fmt.Sprintf(`{"groupVersion":"example.com/%[1]s","version":%[1]q}`, v))
		}
		fmt.Fprintf(w, `{"kind":"APIGroup","apiVersion":"v1","name":"example.com","versions":[%s],"preferredVersion":%s}`, strings.Join(all, ","), all[0])
	case path == "":
		fmt.Fprintf(w, `{"kind":"APIResourceList","apiVersion":"v1","groupVersion":"example.com/%s","resources":[{"name":"things","namespaced":true,"kind":"Thing","verbs":["list","watch","get"]}]}`, version)
	case path != "things":
		writeStatus(w, 404, "NotFound", "no such resource")
	case f.denies(verbOf(r), ns):
		name := ""
		if selector := r.URL.Query().Get("fieldSelector"); strings.Contains(selector, "metadata.name=") { // as the API server does
			_, name, _ = strings.Cut(selector, "metadata.name=")
			name = fmt.Sprintf(" %q", name)
		}
		writeStatus(w, 403, "Forbidden", "things.example.com"+name+" is forbidden: you cannot "+verbOf(r)+" it")
	default:
		f.serveObjects(w, r, ns)
	}
}

// serveNamespace answers a get of a Namespace.
func (f *fakeAPI) serveNamespace(w http.ResponseWriter, name string) {
	if f.denies("get", "namespaces") {
		writeStatus(w, 403, "Forbidden", "namespaces is forbidden: you cannot get it")
		return
	}
	if c, ok := f.state()["/"+name]; ok {
		fmt.Fprintf(w, `{"kind":"Namespace","apiVersion":"v1","metadata":{"name":%q,"uid":%q,"resourceVersion":"%d"}}`, name, c.uid, c.rev)
		return
	}
	w.WriteHeader(http.StatusNotFound)
	fmt.Fprintf(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","code":404,"reason":"NotFound","message":"namespaces %[2]s not found","details":{"name":%[1]q,"kind":"namespaces"}}`, name, name)
}

// serveGroupList answers /apis.
func (f *fakeAPI) serveGroupList(w http.ResponseWriter, served bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	var groups []string
	name := func(group string) {
		version := fmt.Sprintf(`{"groupVersion":"%s/v1","version":"v1"}`, group)
		groups = append(groups, fmt.Sprintf(`{"name":%q,"versions":[%s],"preferredVersion":%s}`, group, version, version))
	}
	if served {
		name("example.com")
	}
	if f.definitions != nil {
		name("apiextensions.k8s.io")
		name("apiregistration.k8s.io")
	}
	fmt.Fprintf(w, `{"kind":"APIGroupList","apiVersion":"v1","groups":[%s]}`, strings.Join(groups, ","))
}

func (f *fakeAPI) serveObjects(w http.ResponseWriter, r *http.Request, ns string) {
	if r.URL.Query().Get("watch") != "" {
		f.serveWatch(w, r, ns)
	} else {
		f.serveList(w, r, ns)
	}
}

func verbOf(r *http.Request) string {
	if r.URL.Query().Get("watch") != "" {
		return "watch"
	}
	return "list"
}

// ofThings and ofNamespaces report what a request is about.
func ofThings(r *http.Request) bool { return strings.HasSuffix(r.URL.Path, "/things") }

func ofNamespaces(r *http.Request) bool { return r.URL.Path == namespacesPath }

func notOfNamespaces(r *http.Request) bool { return !ofNamespaces(r) }

func isWatch(r *http.Request) bool { return ofThings(r) && verbOf(r) == "watch" }

// denies says so of things in a namespace, or of another resource.
func (f *fakeAPI) denies(verb, of string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.denied[verb] && !slices.Contains(otherResources(), of) || f.denied[verb+" "+of]
}

// otherResources are those beside things that one may lack permission for.
func otherResources() []string {
	return []string{"namespaces", "customresourcedefinitions", "apiservices"}
}

// serveReview answers a SelfSubjectAccessReview.
func (f *fakeAPI) serveReview(w http.ResponseWriter, r *http.Request) {
	var review struct {
		APIVersion, Kind string
		Spec             struct {
			ResourceAttributes struct{ Namespace, Verb, Group, Resource string }
		}
	}
	err := json.NewDecoder(r.Body).Decode(&review)
	a := review.Spec.ResourceAttributes
	of, known := a.Namespace, a.Group == "example.com" && a.Resource == "things"
	if slices.Contains(otherResources(), a.Resource) {
		of, known = a.Resource, a.Namespace == ""
	}
	if err != nil || r.Method != http.MethodPost || r.Header.Get("Content-Type") != "application/json" ||
		review.APIVersion != "authorization.k8s.io/v1" || review.Kind != "SelfSubjectAccessReview" || !known {
		writeStatus(w, 400, "BadRequest", fmt.Sprintf("not a review of what there is: %v %+v", err, review))
		return
	}
	writeReview(w, !f.denies(a.Verb, of))
}

func writeReview(w http.ResponseWriter, allowed bool) {
	w.WriteHeader(http.StatusCreated)
	fmt.Fprintf(w, `{"kind":"SelfSubjectAccessReview","apiVersion":"authorization.k8s.io/v1","status":{"allowed":%t}}`, allowed)
}

func writeStatus(w http.ResponseWriter, code int, reason, message string) {
	w.WriteHeader(code)
	fmt.Fprint(w, statusJSON(code, reason, message))
}

func statusJSON(code int, reason, message string) string {
	b, _ := json.Marshal(map[string]any{
		"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code, "reason": reason, "message": message,
	})
	return string(b)
}

// selected reports whether the request's selectors and namespace take an object.
func selected(r *http.Request, ns string, c change) bool {
	for field := range strings.SplitSeq(r.URL.Query().Get("fieldSelector"), ",") {
		name, byName := strings.CutPrefix(field, "metadata.name=")
		namespace, byNamespace := strings.CutPrefix(field, "metadata.namespace=")
		if byName && c.name != name || byNamespace && c.ns != namespace {
			return false
		}
	}
	label, byLabel := strings.CutPrefix(r.URL.Query().Get("labelSelector"), "on=")
	return c.isNamespace() == (r.URL.Path == namespacesPath) && (ns == "" || c.ns == ns) && (!byLabel || c.label == label)
}

// asAsked is a request as the fake understands it.
func (f *fakeAPI) asAsked(r *http.Request) *http.Request {
	if !f.unselecting {
		return r
	}
	r = r.Clone(r.Context())
	q := r.URL.Query()
	q.Del("fieldSelector")
	r.URL.RawQuery = q.Encode()
	return r
}

func (f *fakeAPI) body(r *http.Request, c change) string {
	kind, apiVersion, spec := "Thing", "example.com/v1", fmt.Sprintf(`,"spec":{"rev":%d}`, c.rev)
	if metadataOnly(r) {
		kind, apiVersion, spec = "PartialObjectMetadata", "meta.k8s.io/v1", ""
	}
	s := fmt.Sprintf(`{"apiVersion":%q,"kind":%q,"metadata":{"name":%q,"namespace":%q,"uid":%q,"resourceVersion":"%d","labels":{"on":%q},"managedFields":[{"manager":"x"}]}%s}`,
		apiVersion, kind, c.name, c.ns, c.uid, c.rev, c.label, spec)
	if f.mangle != nil {
		s = f.mangle(s)
	}
	return s
}

func (f *fakeAPI) serveList(w http.ResponseWriter, r *http.Request, ns string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	q := r.URL.Query()
	rev, skip := f.rev, 0
	if next := q.Get("continue"); next != "" {
		if q.Get("resourceVersion") != "" {
			writeStatus(w, 422, "Invalid", "continue with a resourceVersion")
			return
		}
		if _, err := fmt.Sscanf(next, "%d-%d", &rev, &skip); err != nil {
			writeStatus(w, 400, "BadRequest", "bad continue token")
			return
		}
	} else if rv := q.Get("resourceVersion"); rv != "" {
		rev, _ = strconv.ParseUint(rv, 10, 64)
	}
	if rev > f.rev {
		writeStatus(w, 504, "Timeout", fmt.Sprintf("Too large resource version: %d, current: %d", rev, f.rev))
		return
	}
	if rev < f.compacted {
		writeStatus(w, 410, "Expired", "The provided resource version is too old")
		return
	}
	state := f.stateAt(rev)
	if f.lists != nil && !strings.HasPrefix(q.Get("fieldSelector"), "metadata.name=") {
		f.lists(state, q.Get("resourceVersionMatch") == "Exact")
	}
	var items []string
	for _, key := range slices.Sorted(maps.Keys(state)) {
		if selected(f.asAsked(r), ns, state[key]) {
			items = append(items, f.body(r, state[key]))
		}
	}
	next, remaining := "", ""
	limit, _ := strconv.Atoi(q.Get("limit"))
	if f.page > 0 {
		limit = f.page
	}
	if limit > 0 && len(items) > skip+limit {
		if q.Get("labelSelector") == "" && q.Get("fieldSelector") == "" {
			remaining = fmt.Sprintf(`"remainingItemCount":%d,`, len(items)-skip-limit)
		}
		items, next = items[:skip+limit], fmt.Sprintf("%d-%d", rev, skip+limit)
	}
	kind, apiVersion := "ThingList", "example.com/v1"
	if metadataOnly(r) {
		kind, apiVersion = "PartialObjectMetadataList", "meta.k8s.io/v1"
	}
	// Custom resources' lists are sorted by key: the items come before the metadata.
	fmt.Fprintf(w, `{"apiVersion":%q,"items":[%s],"kind":%q,"metadata":{"continue":%q,%s"resourceVersion":"%d"}}`,
		apiVersion, strings.Join(items[min(skip, len(items)):], ","), kind, next, remaining, rev)
}

func (f *fakeAPI) serveWatch(w http.ResponseWriter, r *http.Request, ns string) {
	at, _ := strconv.ParseUint(r.URL.Query().Get("resourceVersion"), 10, 64)
	f.mu.Lock()
	generation, oldest, nameless := f.generation, f.oldest, f.nameless
	f.opened++
	number := f.opened
	f.mu.Unlock()
	if at < oldest {
		message := fmt.Sprintf("too old resource version: %d (%d)", at, oldest)
		if nameless {
			message = "The resourceVersion for the provided watch is too old."
		}
		fmt.Fprintf(w, `{"type":"ERROR","object":%s}`+"\n", statusJSON(410, "Expired", message))
		return
	}
	kind, apiVersion := "Thing", "example.com/v1"
	if metadataOnly(r) {
		kind, apiVersion = "PartialObjectMetadata", "meta.k8s.io/v1"
	}
	f.stream(w, r, func() (frames []string, over bool) {
		upTo := f.rev
		if f.starved != 0 && (f.stale == nil || f.stale(r)) && (f.fresh == 0 || number <= f.fresh) {
			upTo = max(f.starved, at)
		}
		mute := f.mute || number <= f.frozen || f.slow != nil && f.slow(r)
		if mute || upTo < at || f.generation != generation {
			return nil, f.generation != generation
		}
		frames = f.framesSince(r, ns, at, upTo)
		if f.breakAfter > 0 && len(frames) > f.breakAfter {
			frames, f.breakAfter = frames[:f.breakAfter], 0
			return frames, true
		}
		at = upTo
		return append(frames, bookmark(kind, apiVersion, at)), false
	})
}

func bookmark(kind, apiVersion string, rev uint64) string {
	const frame = `{"type":"BOOKMARK","object":{"kind":%q,"apiVersion":%q,"metadata":{"resourceVersion":"%d","creationTimestamp":null}}}`
	return fmt.Sprintf(frame, kind, apiVersion, rev)
}

// stream answers a watch with what next returns under the lock, whenever something changes and now and then, until that
// is all.
func (f *fakeAPI) stream(w http.ResponseWriter, r *http.Request, next func() (frames []string, over bool)) {
	flusher, _ := w.(http.Flusher)
	flusher.Flush()
	for {
		f.mu.Lock()
		frames, over := next()
		wake, pulse := f.changed, f.pulse
		f.mu.Unlock()
		for _, frame := range frames {
			fmt.Fprintln(w, frame)
		}
		if over {
			return
		}
		if len(frames) > 0 {
			flusher.Flush()
		}
		select {
		case <-wake:
		case <-time.After(pulse):
		case <-r.Context().Done():
			return
		}
	}
}

// framesSince renders what a watch at that revision has to see, with the API
// server's way of showing objects that cross the edge of a selection.
func (f *fakeAPI) framesSince(r *http.Request, ns string, at, upTo uint64) []string {
	var frames []string
	before := f.stateAt(at)
	for _, c := range f.history {
		if c.rev <= at || c.rev > upTo {
			continue
		}
		old, existed := before[c.key()]
		was, is := existed && selected(r, ns, old), !c.deleted && selected(r, ns, c)
		typ, show := "", c
		switch {
		case was && is:
			typ = "MODIFIED"
		case is:
			typ = "ADDED"
		case was:
			typ, show = "DELETED", old
			show.rev = c.rev
		}
		if typ != "" {
			frame := fmt.Sprintf(`{"type":%q,"object":%s}`, typ, f.body(r, show))
			if f.left == nil || !f.left(frame) {
				frames = append(frames, frame)
			}
		}
		if c.deleted {
			delete(before, c.key())
		} else {
			before[c.key()] = c
		}
	}
	return frames
}

package dynwatch_test

import (
	"cmp"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// fakeOwners are two resources beside the fake's things, sets and apps of the group
// own.example.com, whose objects have nothing but an identity and a controller. A thing
// is controlled by the set that its label names, as <name>/<uid>, and was written last by
// "tester".
type fakeOwners struct {
	// group and kinds, by resource, are what they are: see own.
	group     string
	namespace string // of the owners
	kinds     map[string]string

	mu      sync.Mutex
	rev     uint64
	changed chan struct{}
	history []ownerChange
	// denied: nothing may be listed or watched. Hung: nothing is answered.
	denied, hung bool
	// slow is how long each look-up by name takes.
	slow time.Duration
	// late are names that lists and watches do not show yet; by name they are there.
	late map[string]bool
	// open counts the watches, asked the look-ups by name.
	open, asked int
	generation  int
}

type ownerChange struct {
	rev                             uint64
	resource, namespace, name, uid  string
	controllerKind, controller, cid string
	deleted                         bool
}

var ownedLabel = regexp.MustCompile(`"labels":\{"on":"([^"/]*)/([^"/]*)"\},"managedFields":\[\{"manager":"x"\}\]`)

// own adds the resources to a fake.
func (f *fakeAPI) own() *fakeOwners {
	o := &fakeOwners{group: "own.example.com", namespace: "a", kinds: map[string]string{"sets": "Set", "apps": "App"}, rev: 100, changed: make(chan struct{}), late: make(map[string]bool)}
	f.do(func() {
		f.refuse = o.serve
		f.mangle = func(s string) string {
			return ownedLabel.ReplaceAllString(s, `"labels":{"on":"$1/$2"},"managedFields":[{"manager":"tester","operation":"Update","time":"2026-11-20T10:00:00Z"}],`+
				`"ownerReferences":[{"apiVersion":"own.example.com/v1","kind":"Set","name":"$1","uid":"$2","controller":true}]`)
		}
	})
	return o
}

// do changes the owners under their lock and wakes the watches.
func (o *fakeOwners) do(change func()) {
	o.mu.Lock()
	defer o.mu.Unlock()
	change()
	close(o.changed)
	o.changed = make(chan struct{})
}

// put creates or changes an owner; the controller is <Kind>/<name>/<uid>, empty for none.
func (o *fakeOwners) put(resource, name, uid, controller string) {
	o.do(func() {
		o.rev++
		c := ownerChange{rev: o.rev, resource: resource, namespace: o.namespace, name: name, uid: uid}
		if parts := strings.Split(controller, "/"); len(parts) == 3 {
			c.controllerKind, c.controller, c.cid = parts[0], parts[1], parts[2]
		}
		o.history = append(o.history, c)
	})
}

func (o *fakeOwners) del(resource, name string) {
	o.do(func() {
		o.rev++
		for _, c := range slices.Backward(o.history) {
			if c.resource == resource && c.name == name {
				c.rev, c.deleted = o.rev, true
				o.history = append(o.history, c)
				return
			}
		}
	})
}

// deny says whether anything may be read, and ends the watches.
func (o *fakeOwners) deny(denied bool) {
	o.do(func() { o.denied = denied; o.generation++ })
}

func (o *fakeOwners) watches() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.open
}

func (o *fakeOwners) looks() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.asked
}

func (o *fakeOwners) body(c *ownerChange) string {
	references := ""
	if c.controller != "" {
		references = fmt.Sprintf(`,"ownerReferences":[{"apiVersion":"%s/v1","kind":%q,"name":%q,"uid":%q,"controller":true}]`, o.group, c.controllerKind, c.controller, c.cid)
	}
	return fmt.Sprintf(`{"kind":"PartialObjectMetadata","apiVersion":"meta.k8s.io/v1","metadata":{"namespace":%q,"name":%q,"uid":%q,"resourceVersion":"%d"%s}}`,
		c.namespace, c.name, c.uid, c.rev, references)
}

// serve answers what is about the group.
func (o *fakeOwners) serve(w http.ResponseWriter, r *http.Request) bool {
	path, ok := strings.CutPrefix(r.URL.Path, "/apis/"+o.group)
	if !ok {
		return false
	}
	resource := path[strings.LastIndex(path, "/")+1:]
	name := strings.TrimPrefix(r.URL.Query().Get("fieldSelector"), "metadata.name=")
	o.mu.Lock()
	denied, hung, slow := o.denied, o.hung, time.Duration(0)
	if name != "" {
		o.asked++
		slow = o.slow
	}
	o.mu.Unlock()
	select {
	case <-time.After(slow):
	case <-r.Context().Done():
	}
	switch {
	case path == "":
		fmt.Fprintf(w, `{"kind":"APIGroup","apiVersion":"v1","name":%[1]q,"versions":[{"groupVersion":"%[1]s/v1","version":"v1"}],"preferredVersion":{"groupVersion":"%[1]s/v1","version":"v1"}}`, o.group)
	case path == "/v1":
		var resources []string
		for name, kind := range o.kinds {
			resources = append(resources, fmt.Sprintf(`{"name":"%[1]s/scale","namespaced":true,"kind":%[2]q,"verbs":["list","watch"]},`+
				`{"name":%[1]q,"namespaced":true,"kind":%[2]q,"verbs":["list","watch","get"]}`, name, kind))
		}
		fmt.Fprintf(w, `{"kind":"APIResourceList","apiVersion":"v1","groupVersion":"%s/v1","resources":[%s]}`, o.group, strings.Join(resources, ","))
	case hung:
		<-r.Context().Done()
	case denied:
		writeStatus(w, 403, "Forbidden", resource+" is forbidden")
	case !metadataOnly(r):
		writeStatus(w, 400, "BadRequest", "more than metadata is asked for")
	case verbOf(r) == "watch":
		o.watch(w, r, resource)
	default:
		o.list(w, resource, name)
	}
	return true
}

func (o *fakeOwners) list(w http.ResponseWriter, resource, name string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	state := make(map[string]string)
	for _, c := range o.history {
		switch {
		case c.resource != resource, name == "" && o.late[c.name], name != "" && c.name != name:
		case c.deleted:
			delete(state, c.name)
		default:
			state[c.name] = o.body(&c)
		}
	}
	var items []string
	for _, item := range state {
		items = append(items, item)
	}
	fmt.Fprintf(w, `{"kind":"PartialObjectMetadataList","apiVersion":"meta.k8s.io/v1","metadata":{"resourceVersion":"%d"},"items":[%s]}`, o.rev, strings.Join(items, ","))
}

func (o *fakeOwners) watch(w http.ResponseWriter, r *http.Request, resource string) {
	at, _ := strconv.ParseUint(cmp.Or(r.URL.Query().Get("resourceVersion"), "0"), 10, 64)
	flusher, _ := w.(http.Flusher)
	o.mu.Lock()
	o.open++
	generation := o.generation
	o.mu.Unlock()
	defer o.do(func() { o.open-- })
	for {
		o.mu.Lock()
		wake, over := o.changed, o.generation != generation
		for _, c := range o.history {
			if c.rev <= at || c.resource != resource || o.late[c.name] {
				continue
			}
			typ := "ADDED"
			if c.deleted {
				typ = "DELETED"
			}
			fmt.Fprintf(w, `{"type":%q,"object":%s}`+"\n", typ, o.body(&c))
		}
		at = o.rev
		fmt.Fprintf(w, `{"type":"BOOKMARK","object":{"kind":"PartialObjectMetadata","apiVersion":"meta.k8s.io/v1","metadata":{"resourceVersion":"%d"}}}`+"\n", at)
		o.mu.Unlock()
		if over {
			return
		}
		flusher.Flush()
		select {
		case <-wake:
		case <-time.After(20 * time.Millisecond):
		case <-r.Context().Done():
			return
		}
	}
}

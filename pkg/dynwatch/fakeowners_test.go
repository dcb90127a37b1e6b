package dynwatch_test

import (
	"fmt"
	"net/http"
	"regexp"
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
	objects map[string]ownerObject // by resource and name
	// denied: nothing may be read. Hung: nothing is answered.
	denied, hung bool
	// slow is how long each look-up takes.
	slow time.Duration
	// asked counts the look-ups.
	asked int
}

type ownerObject struct {
	name, uid                       string
	controllerKind, controller, cid string
}

var ownedLabel = regexp.MustCompile(`"labels":\{"on":"([^"/]*)/([^"/]*)"\},"managedFields":\[\{"manager":"x"\}\]`)

// own adds the resources to a fake.
func (f *fakeAPI) own() *fakeOwners {
	o := &fakeOwners{group: "own.example.com", namespace: "a", kinds: map[string]string{"sets": "Set", "apps": "App"}, objects: make(map[string]ownerObject)}
	f.do(func() {
		f.refuse = o.serve
		f.mangle = func(s string) string {
			return ownedLabel.ReplaceAllString(s, `"labels":{"on":"$1/$2"},"managedFields":[{"manager":"tester","operation":"Update","time":"2026-11-20T10:00:00Z"}],`+
				`"ownerReferences":[{"apiVersion":"own.example.com/v1","kind":"Set","name":"$1","uid":"$2","controller":true}]`)
		}
	})
	return o
}

// do changes the owners under their lock.
func (o *fakeOwners) do(change func()) {
	o.mu.Lock()
	defer o.mu.Unlock()
	change()
}

// put creates or changes an owner; the controller is <Kind>/<name>/<uid>, empty for none.
func (o *fakeOwners) put(resource, name, uid, controller string) {
	made := ownerObject{name: name, uid: uid}
	if parts := strings.Split(controller, "/"); len(parts) == 3 {
		made.controllerKind, made.controller, made.cid = parts[0], parts[1], parts[2]
	}
	o.do(func() { o.objects[resource+"/"+name] = made })
}

// putSetOfApp creates a set whose controller is an app.
func (o *fakeOwners) putSetOfApp() {
	o.put("apps", "app", "u-app", "")
	o.put("sets", "set", "u-set", "App/app/u-app")
}

// putChain creates so many sets, each of which but the last has the next one for its controller: sa, sb and so on.
func (o *fakeOwners) putChain(sets int) {
	for i := range sets {
		name, next := "s"+string(rune('a'+i)), "s"+string(rune('b'+i))
		controller := "Set/" + next + "/u" + next
		if i == sets-1 {
			controller = ""
		}
		o.put("sets", name, "u"+name, controller)
	}
}

func (o *fakeOwners) del(resource, name string) {
	o.do(func() { delete(o.objects, resource+"/"+name) })
}

// deny says whether anything may be read.
func (o *fakeOwners) deny(denied bool) { o.do(func() { o.denied = denied }) }

func (o *fakeOwners) looks() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.asked
}

func (o *fakeOwners) body(of *ownerObject) string {
	references := ""
	if of.controller != "" {
		references = fmt.Sprintf(`,"ownerReferences":[{"apiVersion":"%s/v1","kind":%q,"name":%q,"uid":%q,"controller":true}]`, o.group, of.controllerKind, of.controller, of.cid)
	}
	return fmt.Sprintf(`{"kind":"PartialObjectMetadata","apiVersion":"meta.k8s.io/v1","metadata":{"namespace":%q,"name":%q,"uid":%q,"resourceVersion":"101"%s}}`,
		o.namespace, of.name, of.uid, references)
}

// serve answers what is about the group.
func (o *fakeOwners) serve(w http.ResponseWriter, r *http.Request) bool {
	path, ok := strings.CutPrefix(r.URL.Path, "/apis/"+o.group)
	if !ok {
		return false
	}
	switch path {
	case "":
		fmt.Fprintf(w, `{"kind":"APIGroup","apiVersion":"v1","name":%[1]q,"versions":[{"groupVersion":"%[1]s/v1","version":"v1"}],"preferredVersion":{"groupVersion":"%[1]s/v1","version":"v1"}}`, o.group)
		return true
	case "/v1":
		var resources []string
		for name, kind := range o.kinds {
			resources = append(resources, fmt.Sprintf(`{"name":"%[1]s/scale","namespaced":true,"kind":%[2]q,"verbs":["get"]},`+
				`{"name":%[1]q,"namespaced":true,"kind":%[2]q,"verbs":["list","watch","get"]}`, name, kind))
		}
		fmt.Fprintf(w, `{"kind":"APIResourceList","apiVersion":"v1","groupVersion":"%s/v1","resources":[%s]}`, o.group, strings.Join(resources, ","))
		return true
	}
	o.mu.Lock()
	o.asked++
	denied, hung, slow := o.denied, o.hung, o.slow
	o.mu.Unlock()
	select {
	case <-time.After(slow):
	case <-r.Context().Done():
	}
	switch {
	case hung:
		<-r.Context().Done()
	case denied:
		writeStatus(w, 403, "Forbidden", path+" is forbidden")
	case !metadataOnly(r):
		writeStatus(w, 400, "BadRequest", "more than metadata is asked for")
	default:
		o.get(w, path)
	}
	return true
}

// get answers a look-up by name, and nothing else.
func (o *fakeOwners) get(w http.ResponseWriter, path string) {
	name, there := strings.CutPrefix(path, "/v1/namespaces/"+o.namespace+"/")
	o.mu.Lock()
	of, found := o.objects[name]
	o.mu.Unlock()
	if !there || !found {
		writeStatus(w, 404, "NotFound", path+" not found")
		return
	}
	fmt.Fprint(w, o.body(&of))
}

package emit

import (
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"github.com/informd/informd/pkg/dynwatch/internal/frame"
	"github.com/informd/informd/pkg/dynwatch/internal/kube"
)

// cluster has one owner, the Set "set", and counts its look-ups.
type cluster struct {
	// object is what a look-up answers with, empty for none; status is that of other answers.
	object atomic.Pointer[string]
	status atomic.Int64
	looks  atomic.Int64
}

func (c *cluster) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	switch r.URL.Path {
	case "/apis/example.com":
		fmt.Fprint(w, `{"kind":"APIGroup","apiVersion":"v1","name":"example.com","versions":[{"groupVersion":"example.com/v1","version":"v1"}],"preferredVersion":{"groupVersion":"example.com/v1","version":"v1"}}`)
	case "/apis/example.com/v1":
		fmt.Fprint(w, `{"kind":"APIResourceList","apiVersion":"v1","groupVersion":"example.com/v1","resources":[{"name":"sets","namespaced":true,"kind":"Set","verbs":["get"]}]}`)
	default:
		c.looks.Add(1)
		if o := c.object.Load(); o != nil && strings.HasSuffix(r.URL.Path, "/namespaces/a/sets/set") {
			fmt.Fprint(w, *o)
			return
		}
		w.WriteHeader(int(c.status.Load()))
		fmt.Fprintf(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","code":%d,"reason":%q}`, c.status.Load(),
			map[int64]string{403: "Forbidden", 404: "NotFound"}[c.status.Load()])
	}
}

// controlled has the owner be controlled by another one.
func (c *cluster) controlled(by string) {
	object := fmt.Sprintf(`{"metadata":{"namespace":"a","name":"set","uid":"u-set","resourceVersion":"1","ownerReferences":[`+
		`{"apiVersion":"other.com/v1","kind":"App","name":%q,"uid":%q,"controller":true}]}}`, by, "u-"+by)
	c.object.Store(&object)
}

func newFinder(t *testing.T) (*OwnerFinder, *cluster) {
	c := new(cluster)
	c.status.Store(http.StatusNotFound)
	server := httptest.NewServer(c)
	t.Cleanup(server.Close)
	clients, err := kube.NewClients(&rest.Config{Host: server.URL}, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(clients.Close)
	return NewOwnerFinder(clients, slog.New(slog.DiscardHandler)), c
}

// aboveSet is the name of the controller above the owner, as an object of a namespace asks for it.
func (f *OwnerFinder) aboveSet(t *testing.T, scope, namespace string) string {
	of := frame.Owner{APIVersion: "example.com/v1", Kind: "Set", Name: "set", UID: "u-set"}
	above, known := f.above(t.Context(), time.Now().Add(time.Minute), scope, namespace, &of)
	switch {
	case !known:
		return "unknown"
	case above == nil:
		return "none"
	default:
		return above.Name
	}
}

// TestAnswers: an answer is used for a while, then the owner is looked up again, and what it last
// said stays if it has gone.
func TestAnswers(t *testing.T) {
	f, c := newFinder(t)
	want := func(above string, looks int64) {
		t.Helper()
		if got, n := f.aboveSet(t, "", "a"), c.looks.Load(); got != above || n != looks {
			t.Errorf("the controller is %s after %d look-ups, want %s after %d", got, n, above, looks)
		}
	}
	c.controlled("one")
	want("one", 1)
	c.controlled("two")
	want("one", 1)
	f.fresh = 0
	f.answers.RemoveAll(func(any) bool { return true })
	want("two", 2)
	c.controlled("three")
	want("three", 3)
	c.object.Store(nil)
	want("three", 4)
	if got := f.aboveSet(t, "", "b"); got != "unknown" {
		t.Errorf("in another namespace the controller is %s", got)
	}
}

// TestForbiddenInOneNamespace: what the credentials do not allow for one target says nothing about
// another one, and is not asked for again at once.
func TestForbiddenInOneNamespace(t *testing.T) {
	f, c := newFinder(t)
	c.controlled("one")
	c.status.Store(http.StatusForbidden)
	for range 10 {
		if got := f.aboveSet(t, "b", "b"); got != "unknown" {
			t.Errorf("in b the controller is %s", got)
		}
	}
	if n := c.looks.Load(); n > 3 {
		t.Errorf("%d look-ups", n)
	}
	if got := f.aboveSet(t, "a", "a"); got != "one" {
		t.Errorf("in a the controller is %s", got)
	}
}

// TestLimitOfKinds: the kinds that objects name are bounded, and one that works is not forgotten.
func TestLimitOfKinds(t *testing.T) {
	f, c := newFinder(t)
	c.controlled("one")
	if got := f.aboveSet(t, "", "a"); got != "one" {
		t.Fatalf("the controller is %s", got)
	}
	for number := range maxKinds - 1 {
		if s, _ := f.source(kind{"example.com", fmt.Sprint("Kind", number)}, ""); s == nil {
			t.Fatalf("kind %d is refused", number)
		}
	}
	if s, _ := f.source(kind{"example.com", "One"}, ""); s != nil || len(f.kinds) != maxKinds {
		t.Errorf("%d kinds", len(f.kinds))
	}
	for _, s := range f.kinds {
		s.began = s.began.Add(-2 * grace)
	}
	for number := range 2 * maxKinds {
		if s, _ := f.source(kind{"example.com", fmt.Sprint("Other", number)}, ""); number < maxKinds-1 && s == nil {
			t.Errorf("kind %d is refused", number)
		}
	}
	if len(f.kinds) != maxKinds || !f.kinds[kind{"example.com", "Set"}].works {
		t.Errorf("%d kinds", len(f.kinds))
	}
}

// TestPathsOfOwners: what objects say of their controllers makes no path of another request, and none that fails and has
// others wait.
func TestPathsOfOwners(t *testing.T) {
	f, c := newFinder(t)
	c.controlled("one")
	for _, name := range []string{"..", ".", "a/b", "%2e%2e", "../../secrets/x", strings.Repeat("x", 254)} {
		of := frame.Owner{APIVersion: "example.com/v1", Kind: "Set", Name: name, UID: "u-set"}
		if _, known := f.above(t.Context(), time.Now().Add(time.Minute), "", "a", &of); known {
			t.Errorf("%q is known", name)
		}
	}
	if n := c.looks.Load(); n > 0 {
		t.Errorf("%d look-ups", n)
	}
}

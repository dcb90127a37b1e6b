package measured_test

import (
	"bufio"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/informd/informd/test/e2e"
)

// unlimitedLimitMiB is for a memory journal.
const unlimitedLimitMiB = 110

// unlimited is an API server that ignores limits, as aggregated ones do: each list of Pods
// has all of them.
type unlimited struct {
	server *httptest.Server
	filler string

	listed, opened atomic.Int64 // Pods in lists, and watches

	mu sync.Mutex
	// revision is that of the newest change, of the first Pod. No watch begins before it.
	revision int
	// closing ends the open watches when it is closed.
	closing chan struct{}
}

func newUnlimited(t *testing.T) *unlimited {
	t.Helper()
	u := &unlimited{filler: strings.Repeat("x", podBytes-200), revision: manyPods, closing: make(chan struct{})}
	u.server = httptest.NewUnstartedServer(u)
	u.server.EnableHTTP2 = true
	u.server.StartTLS()
	t.Cleanup(func() {
		u.change(func() {})
		u.server.Close()
	})
	return u
}

func (u *unlimited) kubeconfig(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "kubeconfig")
	config := fmt.Sprintf(`{"apiVersion":"v1","kind":"Config","current-context":"c","contexts":[{"name":"c","context":{"cluster":"c"}}],"clusters":[{"name":"c","cluster":{"server":%q,"insecure-skip-tls-verify":true}}]}`,
		u.server.URL)
	e2e.Must(t, os.WriteFile(path, []byte(config), 0o600))
	return path
}

// change changes the server and ends all watches.
func (u *unlimited) change(change func()) {
	u.mu.Lock()
	defer u.mu.Unlock()
	change()
	close(u.closing)
	u.closing = make(chan struct{})
}

func (u *unlimited) pod(i, revision int) string {
	if i > 0 {
		revision = i
	}
	return fmt.Sprintf(`{"kind":"Pod","apiVersion":"v1","metadata":{"name":"p%d","namespace":"a","uid":"3f0f5a4e-1111-4222-8333-%012[1]d","resourceVersion":"%d"},"spec":{"nodeName":%q}}`, i, revision, u.filler)
}

func (u *unlimited) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	switch {
	case r.URL.Path == "/api/v1":
		fmt.Fprint(w, `{"kind":"APIResourceList","groupVersion":"v1","resources":[{"name":"pods","namespaced":true,"kind":"Pod","verbs":["list","watch","get"]}]}`)
	case !strings.HasSuffix(r.URL.Path, "/pods"):
		w.WriteHeader(http.StatusForbidden)
		fmt.Fprint(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","code":403,"reason":"Forbidden"}`)
	case e2e.IsWatch(r):
		u.watch(w, r)
	default:
		u.list(w, r)
	}
}

func (u *unlimited) list(w http.ResponseWriter, r *http.Request) {
	u.mu.Lock()
	revision := u.revision
	u.mu.Unlock()
	from, to := 0, manyPods
	if fields := r.URL.Query().Get("fieldSelector"); fields != "" {
		if _, err := fmt.Sscanf(fields, "metadata.name=p%d", &from); err != nil {
			from = manyPods // there is no other name
		}
		to = min(from+1, manyPods)
	}
	b := bufio.NewWriterSize(w, 64<<10)
	fmt.Fprintf(b, `{"kind":"PodList","apiVersion":"v1","metadata":{"resourceVersion":"%d"},"items":[`, revision)
	for i := from; i < to; i++ {
		if i > from {
			fmt.Fprint(b, ",")
		}
		if _, err := fmt.Fprint(b, u.pod(i, revision)); err != nil {
			return
		}
		u.listed.Add(1)
	}
	fmt.Fprint(b, "]}")
	_ = b.Flush() // a client that is gone misses nothing
}

func (u *unlimited) watch(w http.ResponseWriter, r *http.Request) {
	u.mu.Lock()
	closing, revision := u.closing, u.revision
	u.mu.Unlock()
	if r.URL.Query().Get("resourceVersion") != strconv.Itoa(revision) {
		fmt.Fprintln(w, `{"type":"ERROR","object":{"kind":"Status","apiVersion":"v1","status":"Failure","code":410,"reason":"Expired","message":"too old"}}`)
		return
	}
	_ = http.NewResponseController(w).Flush()
	u.opened.Add(1)
	select {
	case <-closing:
	case <-r.Context().Done():
	}
}

// TestServerThatIgnoresLimits: neither the first list of many large objects nor a
// comparison is held in memory, and opening a watch costs no list.
func TestServerThatIgnoresLimits(t *testing.T) {
	u := newUnlimited(t)
	d := e2e.StartInformd(t, u.kubeconfig(t), "- {resource: pods}", "")
	live := func() bool {
		s, err := d.Status()
		u.mu.Lock()
		defer u.mu.Unlock()
		return err == nil && len(s.Targets) == 1 && s.Targets[0].State == "live" && s.Targets[0].Objects == manyPods &&
			s.Targets[0].ResourceVersion >= uint64(u.revision)
	}
	e2e.Eventually(t, "first list", live)
	t.Logf("first list: peak %.1f MiB", memory(d, "VmHWM"))
	const openings = 5
	for range openings {
		listed, opened := u.listed.Load(), u.opened.Load()
		u.change(func() {})
		e2e.Eventually(t, "another watch", func() bool { return u.opened.Load() > opened })
		if n := u.listed.Load() - listed; n != 0 {
			t.Errorf("opening a watch had the server list %d Pods", n)
		}
	}
	u.change(func() { u.revision++ })
	e2e.Eventually(t, "comparison", live)
	peak := memory(d, "VmHWM")
	t.Logf("after comparisons: peak %.1f MiB, %d Pods listed", peak, u.listed.Load())
	if peak > unlimitedLimitMiB {
		t.Errorf("peak %.1f MiB, want at most %d", peak, unlimitedLimitMiB)
	}
}

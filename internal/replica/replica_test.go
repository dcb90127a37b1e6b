package replica_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"
	"k8s.io/client-go/rest"

	"github.com/informd/informd/internal/replica"
	"github.com/informd/informd/pkg/event"
	"github.com/informd/informd/pkg/journal"
)

// duration is that of the leases here.
const duration = 3 * time.Second

// must ends a test that an error leaves nothing to check in.
func must(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
}

// node is a replica. While cut or isolated is set, it reaches no other one, or not the API server.
type node struct {
	t        *testing.T
	api      *replica.LeaseAPI
	dir      string
	http     *httptest.Server
	server   replica.Server
	cut      atomic.Bool
	isolated atomic.Bool
	inSync   atomic.Bool
	patience time.Duration

	leading *replica.Leadership
	journal *journal.Journal
}

func newNode(t *testing.T, api *replica.LeaseAPI) *node {
	t.Helper()
	n := &node{t: t, api: api, dir: t.TempDir(), patience: time.Minute}
	n.http = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if n.cut.Load() {
			panic(http.ErrAbortHandler)
		}
		n.server.ServeHTTP(w, r)
	}))
	t.Cleanup(n.http.Close)
	return n
}

func (n *node) address() string { return strings.TrimPrefix(n.http.URL, "http://") }

var errIsolated = errors.New("no route to host")

// transport fails while a node is cut off.
type transport struct {
	http.RoundTripper

	off *atomic.Bool
}

func (t transport) RoundTrip(r *http.Request) (*http.Response, error) {
	if t.off.Load() {
		return nil, errIsolated
	}
	return t.RoundTripper.RoundTrip(r)
}

// lead waits until the node leads.
func (n *node) lead(ctx context.Context) error {
	l, err := replica.Acquire(ctx, replica.Options{
		Kubernetes: &rest.Config{Host: "http://lease.invalid", Transport: transport{n.api, &n.isolated}},
		Lease:      "informd", Namespace: "default", Duration: duration, Address: n.address(), Dir: n.dir, Patience: n.patience,
		Peers:  replica.Peers{Transport: transport{&http.Transport{DisableKeepAlives: true}, &n.cut}, Token: func() (string, error) { return "", nil }},
		Server: &n.server, Status: func(_ string, inSync bool) { n.inSync.Store(inSync) }, Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		return err
	}
	j, err := journal.Open(journal.Config{Dir: n.dir, Cluster: "test", Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		return err
	}
	n.leading, n.journal = l, j
	return l.Begin(ctx, j)
}

// leads has the node lead within a time.
func (n *node) leads(within time.Duration) {
	n.t.Helper()
	ctx, cancel := context.WithTimeout(n.t.Context(), within)
	defer cancel()
	must(n.t, n.lead(ctx))
}

// follows has the node wait for the lease in the background, until the leader counts on its copy. Its end is
// what lead returns.
func (n *node) follows() (end <-chan error) {
	n.t.Helper()
	ended := make(chan error, 1)
	ctx, cancel := context.WithCancel(n.t.Context())
	var done sync.WaitGroup
	done.Go(func() { ended <- n.lead(ctx) })
	n.t.Cleanup(func() {
		cancel()
		done.Wait()
		if n.journal != nil { // it has taken over at the end of the test
			n.ends()
		}
	})
	return ended
}

func (n *node) counted() {
	n.t.Helper()
	eventually(n.t, "the leader counts on the follower", func() bool {
		return slices.Contains(strings.Split(n.api.Note("informd.dev/in-sync"), ","), n.address())
	})
}

// crash has the node gone for all others, without a word. Its directory can be used again.
func (n *node) crash() {
	n.t.Helper()
	n.cut.Store(true)
	n.isolated.Store(true)
	if err := n.release(); err != nil && !errors.Is(err, errIsolated) {
		n.t.Log(err)
	}
}

func (n *node) ends() {
	n.t.Helper()
	must(n.t, n.release())
}

// release ends the node's lead. Who waits for its loss goes on, however the lease ended.
func (n *node) release() error {
	n.t.Helper()
	err := n.leading.Release(context.WithoutCancel(n.t.Context()))
	select {
	case <-n.leading.Lost():
	default:
		n.t.Error("a released lease is not lost")
	}
	err = errors.Join(err, n.journal.Close())
	n.journal = nil
	return err
}

func (n *node) add(from, to uint64) {
	n.t.Helper()
	for rv := from; rv < to; rv++ {
		op := event.Added
		if rv%2 == 0 {
			op = event.Modified
		}
		e := event.Event{
			ID: fmt.Sprint(rv), Op: op, Cluster: "test", Target: "core/configmaps", Version: "v1", Resource: "configmaps", Kind: "ConfigMap", Namespace: "a",
			Name: fmt.Sprint("object-", rv/2), UID: fmt.Sprint(rv / 2), ResourceVersion: rv, Ordinal: 1 + (rv+1)%2, Time: time.Now(), Data: []byte(`{"object":{}}`),
		}
		must(n.t, n.journal.Append(n.t.Context(), []event.Event{e}))
	}
	must(n.t, n.journal.Mark(n.t.Context(), "core/configmaps", []byte("mark")))
}

// state returns the last revision of each object, and whether the checkpoint is void.
func (n *node) state() (last map[string]uint64, void bool) {
	n.t.Helper()
	last = map[string]uint64{}
	c, err := n.journal.Restore(n.t.Context(), "core/configmaps", func(e event.Event) { last[e.Name] = e.ResourceVersion })
	must(n.t, err)
	return last, c.Void
}

// continues compares the state with that of the leader before.
func (n *node) continues(want map[string]uint64) {
	n.t.Helper()
	if got, void := n.state(); !maps.Equal(got, want) || void {
		n.t.Errorf("%d objects, void %v; want %d objects", len(got), void, len(want))
	}
}

func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-ctx.Done():
			t.Fatalf("not reached: %s", what)
		case <-tick.C:
		}
	}
}

// pair is a leader with some events, and a follower that has copied them.
func pair(t *testing.T) (api *replica.LeaseAPI, leader, follower *node, next <-chan error) {
	t.Helper()
	ignore := goleak.IgnoreCurrent()
	t.Cleanup(func() { goleak.VerifyNone(t, ignore) })
	api = new(replica.LeaseAPI)
	leader, follower = newNode(t, api), newNode(t, api)
	leader.leads(time.Minute)
	leader.add(2, 100)
	next = follower.follows()
	follower.counted()
	return api, leader, follower, next
}

// TestHandOver: a leader that ends leaves everything to the follower at once.
func TestHandOver(t *testing.T) {
	_, leader, follower, next := pair(t)
	leader.add(100, 200)
	want, _ := leader.state()
	began := time.Now()
	leader.ends()
	must(t, <-next)
	t.Logf("handed over in %v", time.Since(began))
	follower.continues(want)
	follower.ends()
}

// TestCrash: the follower waits until the lease has surely expired, and has each new object that a sink of the
// leader has got.
func TestCrash(t *testing.T) {
	_, leader, follower, next := pair(t)
	c, err := leader.journal.Open("sink", journal.FromSnapshot)
	must(t, err)
	seen := make(chan map[string]bool, 1)
	go func() {
		names := map[string]bool{}
		for {
			entries, err := c.Read(t.Context(), 10)
			if err != nil {
				seen <- names
				return
			}
			for _, e := range entries {
				names[e.Event.Name] = names[e.Event.Name] || e.Event.Op == event.Added
			}
		}
	}()
	leader.add(100, 400)
	held := leader.leading.Check() == nil
	last := time.Now()
	leader.crash()
	rows := <-seen
	must(t, <-next)
	if took := time.Since(last); held && took < duration/2 {
		t.Errorf("the follower leads %v after the leader has renewed its lease of %v", took, duration)
	}
	got, void := follower.state()
	for name, row := range rows {
		if row && got[name] == 0 {
			t.Errorf("a sink has %s, and the copy has not", name)
		}
	}
	if void {
		t.Error("the copy is declared as incomplete")
	}
	follower.ends()
}

// TestUncountedCopy: a follower that the leader does not count on waits for a better one first, and declares then
// that its copy may lack something.
func TestUncountedCopy(t *testing.T) {
	api := new(replica.LeaseAPI)
	leader, follower := newNode(t, api), newNode(t, api)
	leader.leads(time.Minute)
	leader.add(2, 100)
	follower.cut.Store(true)
	follower.patience = 2 * duration
	next := follower.follows()
	leader.crash()
	began := time.Now()
	must(t, <-next)
	if took := time.Since(began); took < follower.patience {
		t.Errorf("it has waited %v, want at least %v", took, follower.patience)
	}
	if _, void := follower.state(); !void {
		t.Error("it does not declare that the log was lost")
	}
	follower.ends()
}

// TestLeaderComesBack: the process that has led continues its own log, if no other has led meanwhile.
func TestLeaderComesBack(t *testing.T) {
	api := new(replica.LeaseAPI)
	n := newNode(t, api)
	n.leads(time.Minute)
	n.add(2, 100)
	want, _ := n.state()
	n.crash()
	n.cut.Store(false)
	n.isolated.Store(false)
	n.leads(time.Minute)
	n.continues(want)
	n.ends()
}

// TestIsolatedLeader: a leader that cannot reach the API server holds nothing any more before the next one
// does, and learns that it has lost the lease. The former leader follows then.
func TestIsolatedLeader(t *testing.T) {
	_, leader, follower, next := pair(t)
	held, release, err := leader.leading.Hold(t.Context())
	must(t, err)
	defer release()
	leader.isolated.Store(true)
	must(t, <-next)
	if held.Err() == nil || leader.leading.Check() == nil {
		t.Error("two lead at a time")
	}
	leader.isolated.Store(false)
	select {
	case <-leader.leading.Lost():
	case <-time.After(time.Minute):
		t.Fatal("the former leader does not notice")
	}
	if _, _, err := leader.leading.Hold(t.Context()); !errors.Is(err, replica.ErrLost) {
		t.Errorf("error %v, want %v", err, replica.ErrLost)
	}
	leader.ends()
	again := leader.follows()
	leader.counted()
	want, _ := follower.state()
	follower.ends()
	must(t, <-again)
	leader.continues(want)
	leader.ends()
}

// TestNoAPIServer: while nobody reaches the API server, nothing is held. Then the same process goes on.
func TestNoAPIServer(t *testing.T) {
	_, leader, follower, _ := pair(t)
	leader.isolated.Store(true)
	follower.isolated.Store(true)
	eventually(t, "the leader pauses", func() bool { return leader.leading.Check() != nil })
	<-time.After(2 * duration)
	leader.isolated.Store(false)
	follower.isolated.Store(false)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	_, release, err := leader.leading.Hold(ctx)
	must(t, err)
	release()
	if follower.leading != nil {
		t.Error("the follower has taken over")
	}
	leader.isolated.Store(true)
	follower.isolated.Store(true)
	eventually(t, "the leader pauses again", func() bool { return leader.leading.Check() != nil })
	leader.crash()
}

// TestDeletedLease: the leader makes a deleted Lease again, and nobody takes over.
func TestDeletedLease(t *testing.T) {
	api, leader, follower, _ := pair(t)
	api.Remove()
	follower.counted()
	if leader.leading.Check() != nil || follower.leading != nil {
		t.Error("another process has taken over")
	}
	leader.ends()
}

// TestSlowFollower: a follower that does not take the log holds sinks up for a moment, and is counted on no more.
func TestSlowFollower(t *testing.T) {
	api, leader, follower, _ := pair(t)
	c, err := leader.journal.Open("sink", journal.FromNow)
	must(t, err)
	follower.cut.Store(true)
	leader.add(101, 102)
	if _, err := c.Read(t.Context(), 10); err != nil {
		t.Fatal(err)
	}
	if list := api.Note("informd.dev/in-sync"); list != "" {
		t.Errorf("a sink reads on while the Lease lists %s", list)
	}
	follower.cut.Store(false)
	follower.counted()
	leader.ends()
}

// TestServerOfFollower: a process that does not lead, or leads in another term, serves no log.
func TestServerOfFollower(t *testing.T) {
	_, leader, follower, _ := pair(t)
	for url, want := range map[string]int{
		follower.http.URL + "/log?term=1":                                    http.StatusServiceUnavailable,
		leader.http.URL + "/log?term=7":                                      http.StatusConflict,
		leader.http.URL + "/log?term=1&file=../../etc/passwd&offset=0":       http.StatusGone,
		leader.http.URL + "/log?term=1&file=00000001.00000000.log&offset=-1": http.StatusBadRequest,
		leader.http.URL + "/log?term=1":                                      http.StatusOK,
	} {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, http.NoBody)
		must(t, err)
		request.Close = true
		response, err := http.DefaultClient.Do(request)
		must(t, err)
		_ = response.Body.Close()
		if response.StatusCode != want {
			t.Errorf("%s: %s, want %d", url, response.Status, want)
		}
	}
	leader.ends()
}

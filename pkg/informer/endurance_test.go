package informer_test

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/informd/informd/pkg/informer"
)

// endurance is a factory at a fake API, and what it holds.
type endurance struct {
	*informer.Factory

	api   *fakeAPI
	conns atomic.Int64 // open connections to the API
	stop  chan struct{}
}

func newEndurance(t *testing.T, o informer.Options) *endurance {
	t.Helper()
	e := &endurance{api: newFakeAPI(t), stop: make(chan struct{})}
	config := &rest.Config{Host: e.api.serve(t)}
	config.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := (&net.Dialer{}).DialContext(ctx, network, address)
		if err != nil {
			return nil, err
		}
		e.conns.Add(1)
		return &countedConn{Conn: conn, open: &e.conns}, nil
	}
	o.Logger = slog.New(slog.DiscardHandler)
	f, err := informer.NewFactory(config, o)
	must(t, err)
	e.Factory = f
	t.Cleanup(func() {
		close(e.stop)
		f.Shutdown()
	})
	return e
}

// serve serves the API on a socket until the test ends, and returns its URL.
func (f *fakeAPI) serve(t *testing.T) string {
	t.Helper()
	to, err := url.Parse(f.Config().Host)
	must(t, err)
	server := httptest.NewServer(&httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(to) }, Transport: f, FlushInterval: -1,
		ErrorLog: slog.NewLogLogger(slog.DiscardHandler, slog.LevelError), // the client ends watches
	})
	t.Cleanup(server.Close)
	return server.URL
}

// countedConn is an open connection.
type countedConn struct {
	net.Conn

	once sync.Once
	open *atomic.Int64
}

func (c *countedConn) Close() error {
	c.once.Do(func() { c.open.Add(-1) })
	return c.Conn.Close()
}

// held is what a process holds.
type held struct {
	goroutines int
	heap       int64 // bytes that are reachable
	conns      int64
}

func (e *endurance) held() held {
	for range 3 {
		runtime.GC() // pools and finalizers need more than one
	}
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return held{runtime.NumGoroutine(), int64(stats.HeapAlloc), e.conns.Load()}
}

// backAt waits until goroutines and connections are at a baseline, and the heap has grown by
// at most 1 MiB.
func (e *endurance) backAt(t *testing.T, baseline held) {
	t.Helper()
	now := e.held()
	t.Cleanup(func() {
		t.Logf("baseline: %+v, at the end: %+v", baseline, now)
	})
	eventually(t, "goroutines, connections and heap at the baseline", func() bool {
		now = e.held()
		return now.goroutines <= baseline.goroutines && now.conns <= baseline.conns && now.heap <= baseline.heap+1<<20
	})
}

// begin starts the informers of the factory, and waits until one of them is synced.
func (e *endurance) begin(t *testing.T, i cache.SharedIndexInformer) {
	t.Helper()
	e.Start(e.stop)
	wait(t, "the informer is synced", i.HasSyncedChecker().Done())
}

// fill puts so many objects of 4 KB.
func (e *endurance) fill(resource string, n int) {
	for n := range n {
		e.api.put(resource, "a", fmt.Sprintf("object-%02d", n), map[string]any{"data": map[string]any{"text": strings.Repeat(fmt.Sprint(n), 2000)}})
	}
}

// end stops the informers of a resource. It fails the test if Stop waits for long.
func (e *endurance) end(t *testing.T, gvr schema.GroupVersionResource) {
	t.Helper()
	done := make(chan struct{})
	go func() {
		defer close(done)
		e.Stop(gvr)
	}()
	wait(t, "Stop returns", done)
}

// delay is how long a busy machine may take for what takes less than a second.
const delay = 10 * time.Second

// undelayed fails the test if it took long.
func undelayed(t *testing.T, what string, began time.Time) {
	t.Helper()
	if took := time.Since(began); took > delay {
		t.Errorf("%s took %v beside a handler that blocks", what, took)
	}
}

// TestPanicsOfManyHandlers adds 10,000 handlers that panic, 2,000 at a time: the race detector
// has a limit of 8,128 goroutines.
func TestPanicsOfManyHandlers(t *testing.T) {
	const rounds, handlers = 5, 2000
	e := newEndurance(t, informer.Options{})
	i := e.ForResource(pods()).Informer()
	var good recorder
	handle(t, i, &good)
	e.begin(t, i)
	e.api.put("pods", "a", "pod", nil)
	want := []string{"add pod false"}
	good.wants(t, want...)
	faulty := cache.ResourceEventHandlerFuncs{
		AddFunc:    func(any) { panic("add") },
		UpdateFunc: func(any, any) { panic("update") },
	}
	var baseline held // after the first round: the runtime keeps descriptors of ended goroutines
	for n := range uint64(rounds) {
		var all []cache.ResourceEventHandlerRegistration
		for range handlers {
			all = append(all, handle(t, i, faulty))
		}
		e.api.put("pods", "a", "pod", nil)
		want = append(want, "update pod")
		good.wants(t, want...)
		eventually(t, "two panics of each handler", func() bool { return e.Stats(pods()).Panics == 2*handlers*(n+1) })
		for _, r := range all {
			must(t, cache.ShutDownEventHandler(i, r))
		}
		if n == 0 {
			baseline = e.held()
		}
	}
	e.backAt(t, baseline)
}

// TestABlockedHandlerDelaysItsInformerOnly blocks a handler for ever, until its queue is full and its
// watch waits. Informers of other resources start, deliver and stop; a new one of the same
// resource, too.
func TestABlockedHandlerDelaysItsInformerOnly(t *testing.T) {
	e := newEndurance(t, informer.Options{QueueLimit: 4})
	e.fill("pods", 30)
	e.fill("configmaps", 1)
	baseline := e.held()

	blocked, h := e.ForResource(pods()).Informer(), newBlocking(t)
	handle(t, blocked, h)
	e.Start(e.stop) // its first list cannot end
	wait(t, "the handler is called", h.called)

	other := func(gvr schema.GroupVersionResource, name string) {
		t.Helper()
		began := time.Now()
		i := e.ForResource(gvr).Informer()
		var seen recorder
		handle(t, i, &seen)
		e.begin(t, i)
		for n := range 50 {
			e.api.put(gvr.Resource, "a", fmt.Sprint(name, n), nil)
		}
		eventually(t, "the last object", func() bool { return strings.HasSuffix(seen.String(), "add "+name+"49 false") })
		e.end(t, gvr)
		undelayed(t, "an informer", began)
	}
	other(configs(), "first")
	other(secrets(), "first")
	if blocked.HasSynced() {
		t.Error("the blocked informer is synced, although its queue was full")
	}

	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		e.Stop(pods())
	}()
	eventually(t, "the blocked informer is stopped, but for its handler", blocked.IsStopped)
	other(pods(), "second")
	other(configs(), "second")
	select {
	case <-stopped:
		t.Error("Stop did not wait for the handler")
	case <-time.After(20 * time.Millisecond):
	}
	h.letGo()
	wait(t, "Stop returns", stopped)
	e.backAt(t, baseline)
}

// TestRemovalOfABlockedHandlerFreesItsInformer: the watch waits for the queue of a handler that
// blocks, until the handler is removed.
func TestRemovalOfABlockedHandlerFreesItsInformer(t *testing.T) {
	e := newEndurance(t, informer.Options{QueueLimit: 4})
	i, h := e.ForResource(pods()).Informer(), newBlocking(t)
	r := handle(t, i, h)
	var seen recorder
	handle(t, i, &seen)
	e.begin(t, i)
	for n := range 20 {
		e.api.put("pods", "a", fmt.Sprint("pod", n), nil)
	}
	eventually(t, "a part of the Pods", func() bool { return strings.Contains(seen.String(), "add pod3 ") })
	if strings.Contains(seen.String(), "add pod19") {
		t.Error("the queue has no limit")
	}
	must(t, i.RemoveEventHandler(r))
	eventually(t, "all Pods", func() bool { return strings.HasSuffix(seen.String(), "add pod19 false") })
}

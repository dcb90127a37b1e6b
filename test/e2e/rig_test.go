package e2e_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"k8s.io/client-go/dynamic"

	"github.com/informd/informd/test/cluster"
	"github.com/informd/informd/test/natsserver"
)

// busStream is the stream that the sink bus of a [rig] fills, all of its history.
const busStream = "EVENTS"

// busSink is a nats sink into busStream.
func busSink(url string) string {
	return fmt.Sprintf("- {name: bus, type: nats, servers: [%q], subjectPrefix: events, stream: %s, create: {historyPerObject: 0}}", url, busStream)
}

// rig is a cluster, a nats-server, four kinds of objects, and a ledger of what was
// written to them.
type rig struct {
	t       *testing.T
	cluster *cluster.Cluster
	nats    *natsserver.Server
	client  dynamic.Interface
	kinds   []kind
	ledger  *ledger
	seed    uint64
}

// newRig starts the servers and writes what exists before any informd does.
func newRig(t *testing.T) *rig {
	t.Helper()
	c := cluster.Start(t, cluster.Options{})
	r := &rig{
		t: t, cluster: c, nats: natsserver.Start(t, natsserver.Options{}), client: dynamic.NewForConfigOrDie(fast(c.RESTConfig())),
		kinds: []kind{podKind(), configMapKind(), customKind("gadgets", false), customKind("planets", true)}, ledger: newLedger(),
	}
	for _, k := range r.kinds[2:] {
		k.install(t, r.client)
	}
	r.write(20)
	r.ledger.begin()
	return r
}

// resources are the entries of the rig's kinds.
func (r *rig) resources(mode string) string {
	return fmt.Sprintf(`
		- {resource: pods, mode: %[1]s}
		- {resource: configmaps, mode: %[1]s, namespaces: [default]}
		- {group: e2e.example.com, resource: gadgets, mode: %[1]s}
		- {group: e2e.example.com, resource: planets, mode: %[1]s}`, mode)
}

// setup is that of an informd on the rig's kinds, with that journal and the sink bus.
func (r *rig) setup(journal string) setup {
	return setup{kubeconfig: r.cluster.Kubeconfig(), resources: r.resources("full"), sinks: busSink(r.nats.URL()), journal: journal}
}

// write makes n random changes to each kind.
func (r *rig) write(n int) {
	r.t.Helper()
	r.seed++
	writeAll(r.t, r.client, r.kinds, r.ledger, n, r.seed)
}

// loadInterval is between two changes of one kind: 200 events a second of all.
const loadInterval = 20 * time.Millisecond

// load changes all kinds at a steady pace until the returned function is called.
func (r *rig) load() (end func()) {
	r.t.Helper()
	r.seed++
	return loadAll(r.t, r.client, r.kinds, r.ledger, r.seed)
}

// loadAll changes each kind every loadInterval until the returned function is
// called, which waits for the last change.
func loadAll(t *testing.T, client dynamic.Interface, kinds []kind, l *ledger, seed uint64) (end func()) {
	t.Helper()
	ended := make(chan struct{})
	var wg sync.WaitGroup
	for i, k := range kinds {
		w := newWriter(client, k, l, seed*100+uint64(i))
		w.adopt(t)
		wg.Go(func() {
			pace := time.NewTicker(loadInterval)
			defer pace.Stop()
			for {
				select {
				case <-ended:
					return
				case <-pace.C:
				}
				if err := w.write(context.WithoutCancel(t.Context()), 1); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	once := sync.OnceFunc(func() {
		close(ended)
		wg.Wait()
	})
	t.Cleanup(once)
	return once
}

// finish waits until everything that was written is in the records and in the
// stream of the sink bus, and holds both to the claim.
func (r *rig) finish(c claim, records func() []record) {
	r.t.Helper()
	eventually(r.t, "files complete", func() bool { return complete(r.kinds, records(), r.ledger) })
	fromBus := func() []record { return readStream(r.t, r.nats.URL(), busStream) }
	eventually(r.t, "JetStream complete", func() bool { return complete(r.kinds, fromBus(), r.ledger) })
	inFile, repeats := once(r.t, records())
	inStream := fromBus()
	r.t.Logf("%d events in the files, %d of them repeated there; %d in JetStream", len(inFile), repeats, len(inStream))
	for _, k := range r.kinds {
		r.t.Run("file "+k.gvr.Resource, func(t *testing.T) { check(t, k, inFile, r.ledger, r.client, c) })
		r.t.Run("jetstream "+k.gvr.Resource, func(t *testing.T) { check(t, k, inStream, r.ledger, r.client, c) })
	}
}

// once leaves out what a sink was given again after a crash, which must be what it
// was given the first time.
func once(t *testing.T, records []record) (unique []record, repeats int) {
	t.Helper()
	first := make(map[string]string)
	for _, r := range records {
		line, again := first[r.ID]
		switch {
		case !again:
			first[r.ID] = r.raw
			unique = append(unique, r)
		case line != r.raw:
			t.Errorf("%s came again, and not the same:\n%s%s", r.ID, line, r.raw)
		default:
			repeats++
		}
	}
	return unique, repeats
}

// recordsAtRest is for how long nothing is recorded once there is nothing to
// record: marks are written once a second.
const recordsAtRest = 1500 * time.Millisecond

// waitForRecords waits until an idle informd has written down how far it has come,
// so that a kill makes it repeat nothing.
func (d *informd) waitForRecords() {
	d.t.Helper()
	var size int64
	since := time.Now()
	same := 0 // looks, as a busy machine can delay one for longer than the pause
	eventually(d.t, "all positions on record", func() bool {
		same++
		if now := d.diskUse(); now != size {
			size, since, same = now, time.Now(), 0
		}
		return time.Since(since) > recordsAtRest && same >= 10
	})
}

// streamEnd is the last sequence of a stream.
func streamEnd(t *testing.T, url, stream string) uint64 {
	t.Helper()
	nc, err := nats.Connect(url, nats.Timeout(patience))
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	s, err := js.Stream(ctx, stream)
	if err != nil {
		t.Fatal(err)
	}
	return s.CachedInfo().State.LastSeq
}

// deleteStream deletes a stream, as `nats stream rm` does.
func deleteStream(t *testing.T, url, stream string) {
	t.Helper()
	nc, err := nats.Connect(url)
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	if err := js.DeleteStream(t.Context(), stream); err != nil {
		t.Fatalf("delete stream %s: %v", stream, err)
	}
}

// hook is a webhook's other side, which keeps what it takes.
type hook struct {
	url string

	mu       sync.Mutex
	requests int
	taken    []record
	// refuse is the answer to an event in place of 204; nil or 0: it is taken.
	refuse func(record) int
}

func startHook(t *testing.T) *hook {
	t.Helper()
	h := &hook{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
		r, err := decodeEvent(request.Body)
		if err != nil {
			t.Errorf("webhook: %v", err)
		}
		h.mu.Lock()
		defer h.mu.Unlock()
		h.requests++
		if h.refuse != nil {
			if code := h.refuse(r); code != 0 {
				w.WriteHeader(code)
				return
			}
		}
		h.taken = append(h.taken, r)
		w.WriteHeader(http.StatusNoContent)
	}))
	t.Cleanup(server.Close)
	h.url = server.URL
	return h
}

// sink is the YAML of a webhook sink to it.
func (h *hook) sink() string { return fmt.Sprintf("- {name: hook, type: webhook, url: %q}", h.url) }

// set changes what the hook refuses.
func (h *hook) set(refuse func(record) int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.refuse = refuse
}

// events returns what was taken, from the one with that index on.
func (h *hook) events(from int) []record {
	h.mu.Lock()
	defer h.mu.Unlock()
	return append([]record(nil), h.taken[from:]...)
}

func (h *hook) calls() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.requests
}

// decodeEvent reads the CloudEvents JSON form of an event.
func decodeEvent(body io.Reader) (r record, err error) {
	b, err := io.ReadAll(body)
	if err != nil {
		return r, err
	}
	r.raw = string(b)
	return r, json.Unmarshal(b, &r)
}

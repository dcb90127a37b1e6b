package delivery_test

import (
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/informd/informd/test/e2e"
	"github.com/informd/informd/test/natsserver"
)

// TestSinkStreamReplaced: the stream of a sink is deleted, while informd runs or while it
// is down. informd creates it again, says so in the log and by a gap event, and fills it
// with every object, of which most have not changed since.
func TestSinkStreamReplaced(t *testing.T) {
	for name, down := range map[string]bool{"while running": false, "while down": true} {
		t.Run(name, func(t *testing.T) {
			r := e2e.NewRig(t)
			d := e2e.NewInformd(t, r.Setup(e2e.LogJournal))
			d.Start()
			d.WaitForLive(len(r.Kinds))
			r.Write(20)
			e2e.Eventually(t, "JetStream complete", func() bool { return e2e.Complete(r.Kinds, e2e.ReadStream(t, r.Nats.URL(), e2e.BusStream), r.Ledger) })
			d.WaitForLive(len(r.Kinds))
			if down {
				d.Stop()
			}
			e2e.DeleteStream(t, r.Nats.URL(), e2e.BusStream)
			if down {
				d.Start()
			}
			filled(t, r)
			e2e.Eventually(t, "the log says so", func() bool { return strings.Contains(d.Stderr.String(), "sink destination replaced") })
			for _, e := range d.Records() {
				if e.Op == "gap" || e.Op == "snapshot" && e.Replay {
					t.Errorf("another sink got %s", e.ID)
				}
			}
			d.WaitForLive(len(r.Kinds))
			n := e2e.StreamEnd(t, r.Nats.URL(), e2e.BusStream)
			d.Stop()
			d.Start()
			d.WaitForLive(len(r.Kinds))
			if got := e2e.StreamEnd(t, r.Nats.URL(), e2e.BusStream); got != n {
				t.Errorf("a restart adds %d messages", got-n)
			}
		})
	}
}

// TestSinkLeavesItsStream: the config of a sink changes from its stream to core NATS and back,
// while informd runs or while it is down. The stream is the same, and lacks the changes between:
// the sink gets a gap event and every object.
func TestSinkLeavesItsStream(t *testing.T) {
	for name, down := range map[string]bool{"while running": false, "while down": true} {
		t.Run(name, func(t *testing.T) {
			r := e2e.NewRig(t)
			d := e2e.NewInformd(t, r.Setup(e2e.LogJournal))
			text, err := os.ReadFile(d.Config)
			e2e.Must(t, err)
			stream := "subjectPrefix: events, stream: " + e2e.BusStream + ", create: {historyPerObject: 0}"
			core := strings.Replace(string(text), stream, "subjectPrefix: other, jetstream: false", 1)
			if core == string(text) {
				t.Fatal("the config of the sink has another form")
			}
			use := func(config string) {
				t.Helper()
				if down {
					d.Stop()
				}
				e2e.Must(t, os.WriteFile(d.Config, []byte(config), 0o600))
				if down {
					d.Start()
				} else if got := d.Reload(); got != http.StatusOK {
					t.Fatalf("reload: %d", got)
				}
				d.WaitForLive(len(r.Kinds))
			}
			d.Start()
			d.WaitForLive(len(r.Kinds))
			use(core)
			r.Write(20)
			d.WaitForLive(len(r.Kinds))
			if allIn(r, e2e.ReadStream(t, r.Nats.URL(), e2e.BusStream)) {
				t.Fatal("the stream has the changes that are for core NATS")
			}
			use(string(text))
			filled(t, r)
		})
	}
}

// filled creates an object, waits until all are in the stream, and expects one gap of the destination there.
func filled(t *testing.T, r *e2e.Rig) {
	t.Helper()
	e2e.Must(t, e2e.NewWriter(r.Client, r.Kinds[1], r.Ledger, 77).Create(t.Context(), "after"))
	var held []e2e.Record
	e2e.Eventually(t, "all objects are in the stream", func() bool {
		held = e2e.ReadStream(t, r.Nats.URL(), e2e.BusStream)
		return allIn(r, held)
	})
	held = slices.DeleteFunc(held, func(e e2e.Record) bool { return e.Op != "gap" || e.Reason != "destination" })
	if len(held) != 1 {
		t.Errorf("%d gaps with reason destination, want 1", len(held))
	}
}

// allIn reports whether a stream has the last state of every object.
func allIn(r *e2e.Rig, held []e2e.Record) bool {
	state := make(map[string]e2e.Record)
	for _, e := range held {
		switch {
		case e.Control():
		case e.Op == "deleted":
			delete(state, e.UID)
		default:
			state[e.UID] = e
		}
	}
	for _, k := range r.Kinds {
		for uid, revisions := range r.Ledger.Revisions[k.Target()] {
			if !r.Ledger.Deleted[k.Target()][uid] && state[uid].ResourceVersion != revisions[len(revisions)-1] {
				return false
			}
		}
	}
	return true
}

// TestClusteredSinkAfterKills: informd is killed and started again, which may read a copy of
// the sink's stream that is behind. That is no failure of the sink.
func TestClusteredSinkAfterKills(t *testing.T) {
	r := e2e.NewRig(t)
	servers := natsserver.StartCluster(t, 3, natsserver.Options{})
	s := r.Setup(e2e.LogJournal)
	s.Sinks = e2e.ClusteredSink(servers)
	d := e2e.NewInformd(t, s)
	d.Start()
	d.WaitForSync(len(r.Kinds))
	end := r.Load()
	for range 3 {
		n := len(d.Records())
		e2e.Eventually(t, "a hundred more events", func() bool { return len(d.Records()) > n+100 })
		d.Kill()
		d.Start()
		d.WaitForLive(len(r.Kinds))
		if log := d.Stderr.String(); strings.Contains(log, "sink unavailable") {
			t.Fatalf("after a restart a sink is failing:\n%s", log)
		}
	}
	end()
}

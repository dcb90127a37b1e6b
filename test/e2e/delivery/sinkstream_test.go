package delivery_test

import (
	"net/http"
	"os"
	"strings"
	"testing"

	"github.com/informd/informd/test/e2e"
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
			one := r.Kinds[1]
			w := e2e.NewWriter(r.Client, one, r.Ledger, 77)
			e2e.Must(t, w.Create(t.Context(), "after"))
			e2e.Eventually(t, "the log says so", func() bool { return strings.Contains(d.Stderr.String(), "sink destination replaced") })
			var held []e2e.Record
			e2e.Eventually(t, "all objects are in the new stream", func() bool {
				held = e2e.ReadStream(t, r.Nats.URL(), e2e.BusStream)
				return allIn(r, held)
			})
			if gaps := destinationGaps(held); gaps != 1 {
				t.Errorf("%d gaps with reason destination, want 1", gaps)
			}
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
			one := r.Kinds[1]
			e2e.Must(t, e2e.NewWriter(r.Client, one, r.Ledger, 77).Create(t.Context(), "after"))
			var held []e2e.Record
			e2e.Eventually(t, "all objects are in the stream", func() bool {
				held = e2e.ReadStream(t, r.Nats.URL(), e2e.BusStream)
				return allIn(r, held)
			})
			if gaps := destinationGaps(held); gaps != 1 {
				t.Errorf("%d gaps with reason destination, want 1", gaps)
			}
		})
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

func destinationGaps(held []e2e.Record) (n int) {
	for _, e := range held {
		if e.Op == "gap" && e.Reason == "destination" {
			n++
		}
	}
	return n
}

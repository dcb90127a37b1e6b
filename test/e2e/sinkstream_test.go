package e2e_test

import (
	"net/http"
	"os"
	"strings"
	"testing"
)

// TestSinkStreamReplaced: the stream of a sink is deleted, while informd runs or while it
// is down. informd creates it again, says so in the log and by a gap event, and fills it
// with every object, of which most have not changed since.
func TestSinkStreamReplaced(t *testing.T) {
	for name, down := range map[string]bool{"while running": false, "while down": true} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			d := newInformd(t, r.setup(logJournal))
			d.start()
			d.waitForLive(len(r.kinds))
			r.write(20)
			eventually(t, "JetStream complete", func() bool { return complete(r.kinds, readStream(t, r.nats.URL(), busStream), r.ledger) })
			d.waitForLive(len(r.kinds))
			if down {
				d.stop()
			}
			deleteStream(t, r.nats.URL(), busStream)
			if down {
				d.start()
			}
			one := r.kinds[1]
			w := newWriter(r.client, one, r.ledger, 77)
			if err := w.create(t.Context(), "after"); err != nil {
				t.Fatal(err)
			}
			eventually(t, "the log says so", func() bool { return strings.Contains(d.stderr.String(), "sink destination replaced") })
			var held []record
			eventually(t, "all objects are in the new stream", func() bool {
				held = readStream(t, r.nats.URL(), busStream)
				return r.allIn(held)
			})
			if gaps := destinationGaps(held); gaps != 1 {
				t.Errorf("%d gaps with reason destination, want 1", gaps)
			}
			for _, e := range d.records() {
				if e.Op == "gap" || e.Op == "snapshot" && e.Replay {
					t.Errorf("another sink got %s", e.ID)
				}
			}
			d.waitForLive(len(r.kinds))
			n := streamEnd(t, r.nats.URL(), busStream)
			d.stop()
			d.start()
			d.waitForLive(len(r.kinds))
			if got := streamEnd(t, r.nats.URL(), busStream); got != n {
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
			r := newRig(t)
			d := newInformd(t, r.setup(logJournal))
			text, err := os.ReadFile(d.config)
			if err != nil {
				t.Fatal(err)
			}
			stream := "subjectPrefix: events, stream: " + busStream + ", create: {historyPerObject: 0}"
			core := strings.Replace(string(text), stream, "subjectPrefix: other, jetstream: false", 1)
			if core == string(text) {
				t.Fatal("the config of the sink has another form")
			}
			use := func(config string) {
				t.Helper()
				if down {
					d.stop()
				}
				if err := os.WriteFile(d.config, []byte(config), 0o600); err != nil {
					t.Fatal(err)
				}
				if down {
					d.start()
				} else if got := d.reload(); got != http.StatusOK {
					t.Fatalf("reload: %d", got)
				}
				d.waitForLive(len(r.kinds))
			}
			d.start()
			d.waitForLive(len(r.kinds))
			use(core)
			r.write(20)
			d.waitForLive(len(r.kinds))
			if r.allIn(readStream(t, r.nats.URL(), busStream)) {
				t.Fatal("the stream has the changes that are for core NATS")
			}
			use(string(text))
			one := r.kinds[1]
			if err := newWriter(r.client, one, r.ledger, 77).create(t.Context(), "after"); err != nil {
				t.Fatal(err)
			}
			var held []record
			eventually(t, "all objects are in the stream", func() bool {
				held = readStream(t, r.nats.URL(), busStream)
				return r.allIn(held)
			})
			if gaps := destinationGaps(held); gaps != 1 {
				t.Errorf("%d gaps with reason destination, want 1", gaps)
			}
		})
	}
}

// allIn reports whether a stream has the last state of every object.
func (r *rig) allIn(held []record) bool {
	state := make(map[string]record)
	for _, e := range held {
		switch {
		case e.control():
		case e.Op == "deleted":
			delete(state, e.UID)
		default:
			state[e.UID] = e
		}
	}
	for _, k := range r.kinds {
		for uid, revisions := range r.ledger.revisions[k.target()] {
			if !r.ledger.deleted[k.target()][uid] && state[uid].ResourceVersion != revisions[len(revisions)-1] {
				return false
			}
		}
	}
	return true
}

func destinationGaps(held []record) (n int) {
	for _, e := range held {
		if e.Op == "gap" && e.Reason == "destination" {
			n++
		}
	}
	return n
}

package e2e_test

import (
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

const (
	// noticed is how long informd may take to notice that its streams are missing, and
	// mended how long until it delivers again.
	noticed = 10 * time.Second
	mended  = 30 * time.Second
)

// deleteStreams deletes streams, as `nats stream rm` does.
func deleteStreams(t *testing.T, url string, names ...string) {
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
	for _, name := range names {
		if err := js.DeleteStream(t.Context(), name); err != nil {
			t.Fatalf("delete stream %s: %v", name, err)
		}
	}
}

// journalGaps counts the targets that a gap with reason journal names, and returns the
// other records.
func journalGaps(records []record) (targets int, others []record) {
	named := make(map[string]bool)
	for _, r := range records {
		if r.Op == "gap" && r.Reason == "journal" {
			named[groupOrCore(r.Group)+"/"+r.Resource] = true
			continue
		}
		others = append(others, r)
	}
	return len(named), others
}

// TestJournalStreamDeleted: somebody deletes streams of the journal while informd runs,
// alone or with a standby. informd notices, creates the streams again, declares the loss
// to every sink, and loses nothing that it knows: neither a change nor a deletion, whether
// before, during or after the accident, or while informd is down later.
func TestJournalStreamDeleted(t *testing.T) {
	for name, tt := range map[string]struct {
		streams []string
		standby bool
		// kept: the events are still there, so that there is nothing to declare.
		kept bool
	}{
		"events":                        {streams: []string{"INFORMD"}},
		"events and state":              {streams: []string{"INFORMD", "INFORMD_STATE"}},
		"all, with a standby":           {streams: []string{"INFORMD", "INFORMD_STATE", "KV_INFORMD_LEASE"}, standby: true},
		"state":                         {streams: []string{"INFORMD_STATE"}, kept: true},
		"events, while a standby waits": {streams: []string{"INFORMD"}, standby: true},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			h := startHook(t)
			s := r.setup(natsJournal(r.nats.URL()) + longHistory)
			s.sinks += "\n" + h.sink()
			s.file = filepath.Join(t.TempDir(), "events.ndjson")
			d, standby := newInformd(t, s), newInformd(t, s)
			d.start()
			d.waitForSync(len(r.kinds))
			if tt.standby {
				standby.start()
				standby.waitForStandby()
			}
			end := r.load()
			eventually(t, "a hundred events", func() bool { return len(d.records()) > 100 })
			deleteStreams(t, r.nats.URL(), tt.streams...)
			began := time.Now()
			eventually(t, "the loss is logged", func() bool { return strings.Contains(d.stderr.String(), "journal lost; recreating its streams") })
			if took := time.Since(began); took > noticed {
				t.Errorf("noticed after %v, want at most %v", took, noticed)
			}
			eventually(t, "the journal works again", func() bool { return strings.Contains(d.stderr.String(), "journal recovered with new streams") })
			last := len(d.records())
			eventually(t, "events flow", func() bool { return len(d.records()) > last+100 })
			took := time.Since(began)
			t.Logf("events flow after %.1f s", took.Seconds())
			if took > mended {
				t.Errorf("events flow after %v, want at most %v", took, mended)
			}
			end()
			d.waitForLive(len(r.kinds))
			eventually(t, "informd is ready again", func() bool {
				_, code, err := d.get("/readyz")
				return err == nil && code == http.StatusOK
			})
			r.expectLoss(tt.kept, d, h)

			// The new ledger has every object: deletions come out after a restart.
			eventually(t, "all objects are in the new journal", func() bool {
				return tt.kept || strings.Count(d.stderr.String(), "re-snapshot complete") >= len(r.kinds)
			})
			d.stop()
			standby.stopIfRunning()
			r.write(60)
			next := newInformd(t, s)
			next.start()
			next.waitForLive(len(r.kinds))
			r.expectLoss(tt.kept, next, h)
			if n := strings.Count(next.stderr.String(), "history lost"); n > 0 {
				t.Errorf("the next start declares %d losses", n)
			}
		})
	}
}

// expectLoss holds all sinks to what was written, and to one declared loss per target.
func (r *rig) expectLoss(kept bool, d *informd, h *hook) {
	r.t.Helper()
	want := len(r.kinds)
	if kept {
		want = 0
	}
	for name, records := range map[string]func() []record{
		"file": d.records, "hook": func() []record { return h.events(0) },
		"JetStream": func() []record { return readStream(r.t, r.nats.URL(), busStream) },
	} {
		eventually(r.t, name+" complete", func() bool { return complete(r.kinds, records(), r.ledger) })
		all := slices.Clone(records())
		gaps, others := journalGaps(all)
		if gaps != want {
			r.t.Errorf("%s: %d targets have a gap with reason journal, want %d", name, gaps, want)
		}
		unique, repeats := once(r.t, others)
		r.t.Logf("%s: %d events, %d of them repeated", name, len(unique), repeats)
		for _, k := range r.kinds {
			check(r.t, k, unique, r.ledger, r.client, claim{outages: []outage{{after: 1 << 62}}})
		}
	}
}

// stopIfRunning is stop for an informd that may not have been started.
func (d *informd) stopIfRunning() {
	if d.cmd != nil {
		d.stop()
	}
}

// TestStandbyFindsNoJournal: the active informd dies and its streams with it. The standby
// knows that there was a journal, and declares the loss.
func TestStandbyFindsNoJournal(t *testing.T) {
	r := newRig(t)
	s := r.setup(natsJournal(r.nats.URL()))
	active, standby := newInformd(t, s), newInformd(t, s)
	active.start()
	active.waitForSync(len(r.kinds))
	standby.start()
	standby.waitForStandby()
	active.kill()
	deleteStreams(t, r.nats.URL(), "INFORMD", "INFORMD_STATE")
	standby.waitForLive(len(r.kinds))
	for name, records := range map[string][]record{"file": standby.records(), "JetStream": readStream(t, r.nats.URL(), busStream)} {
		if gaps, _ := journalGaps(records); gaps != len(r.kinds) {
			t.Errorf("%s: %d targets have a gap with reason journal, want %d", name, gaps, len(r.kinds))
		}
	}
}

// TestVerifyWithoutJournal: while the journal cannot be created again, /readyz, /status
// and the log say why, and `informd verify` ends with the reason.
func TestVerifyWithoutJournal(t *testing.T) {
	r := newRig(t)
	d := newInformd(t, r.setup(natsJournal(r.nats.URL())))
	d.start()
	d.waitForLive(len(r.kinds))
	nc, err := nats.Connect(r.nats.URL())
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	deleteStreams(t, r.nats.URL(), "INFORMD")
	// Another stream has the journal's subjects, so that it cannot be created.
	if _, err := js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "THIEF", Subjects: []string{"k8s.e2e.>"}}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "readiness says why", func() bool {
		body, code, err := d.get("/readyz")
		return err == nil && code == http.StatusServiceUnavailable && strings.Contains(string(body), "journal") && strings.Contains(string(body), "INFORMD")
	})
	if output, code := d.command("verify"); code != 1 || !strings.Contains(output, "journal") {
		t.Errorf("verify ends with %d: %s", code, output)
	}
	if err := js.DeleteStream(t.Context(), "THIEF"); err != nil {
		t.Fatal(err)
	}
	eventually(t, "ready again", func() bool {
		_, code, err := d.get("/readyz")
		return err == nil && code == http.StatusOK
	})
	r.write(10)
	eventually(t, "file complete", func() bool { return complete(r.kinds, d.records(), r.ledger) })
}

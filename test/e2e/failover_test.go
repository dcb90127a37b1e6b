package e2e_test

import (
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/informd/informd/test/natsserver"
)

// takeover is how long a second informd may take to deliver when the first is gone. The
// lease alone takes 8 s to end; the rest is for busy machines.
const takeover = 30 * time.Second

// TestSecondInformdTakesOver: of two informds on one journal the second waits, and
// goes on where the first was killed.
func TestSecondInformdTakesOver(t *testing.T) {
	r := newRig(t)
	s := r.setup(natsJournal(r.nats.URL()) + longHistory)
	s.file = filepath.Join(t.TempDir(), "events.ndjson")
	active, waiting := newInformd(t, s), newInformd(t, s)
	active.start()
	active.waitForSync(len(r.kinds))
	waiting.start()
	end := r.load()
	for range 2 {
		waiting.waitForStandby()
		n := len(active.records())
		eventually(t, "a hundred more events", func() bool { return len(active.records()) > n+100 })
		active.kill()
		began := time.Now()
		n = len(active.records())
		eventually(t, "the other delivers", func() bool { return len(waiting.records()) > n })
		took := time.Since(began)
		t.Logf("taken over after %.1f s", took.Seconds())
		if took > takeover {
			t.Errorf("taken over after %v, want at most %v", took, takeover)
		}
		active, waiting = waiting, active
		waiting.start()
	}
	waiting.waitForStandby()
	end()
	r.finish(claim{}, active.records)
	active.stop()
	waiting.waitForLive(len(r.kinds)) // without waiting for a lease to expire
}

// TestFrozenInformdIsReplaced: one that stands still for longer than the others wait
// does no harm when it wakes up, and ends.
func TestFrozenInformdIsReplaced(t *testing.T) {
	r := newRig(t)
	s := r.setup(natsJournal(r.nats.URL()) + longHistory)
	frozen, next := newInformd(t, s), newInformd(t, s)
	frozen.start()
	frozen.waitForSync(len(r.kinds))
	next.start()
	next.waitForStandby()
	end := r.load()
	eventually(t, "a hundred more events", func() bool { return len(frozen.records()) > 100 })
	frozen.signal(syscall.SIGSTOP)
	n := streamEnd(t, r.nats.URL(), busStream)
	eventually(t, "the other delivers", func() bool { return streamEnd(t, r.nats.URL(), busStream) > n+100 })
	frozen.signal(syscall.SIGCONT)
	if code := frozen.wait(); code != 1 || !strings.Contains(frozen.stderr.String(), "journal lease lost") {
		t.Errorf("the frozen informd ends with exit code %d", code)
	}
	end()
	// The first one's file is the first part, but for what it could not note any more.
	r.finish(claim{}, func() []record { return slices.Concat(frozen.records(), next.records()) })
}

func (d *informd) signal(s syscall.Signal) {
	d.t.Helper()
	if err := d.cmd.Process.Signal(s); err != nil {
		d.t.Fatal(err)
	}
}

// waitForStandby waits until informd says that another one has the journal, and
// that it is ready to take over.
func (d *informd) waitForStandby() {
	d.t.Helper()
	eventually(d.t, "standby", func() bool {
		s, err := d.status()
		return err == nil && s.StandbyFor != ""
	})
	if _, code, err := d.get("/readyz"); err != nil || code != http.StatusOK {
		d.t.Errorf("readiness of a standby: %d, %v", code, err)
	}
}

// TestJournalServerKilledUnderLoad: the server of the journal is killed again and
// again, and nothing is lost. On a busy machine a sink may be behind for seconds, in which
// an object has more events than the journal keeps of each by default.
func TestJournalServerKilledUnderLoad(t *testing.T) {
	r := newRig(t)
	d := newInformd(t, r.setup(natsJournal(r.nats.URL())+longHistory))
	d.start()
	d.waitForSync(len(r.kinds))
	end := r.load()
	for range 4 {
		n := len(d.records())
		eventually(t, "a hundred more events", func() bool { return len(d.records()) > n+100 })
		if err := r.nats.Kill(); err != nil {
			t.Fatal(err)
		}
		<-time.After(time.Second) // the load goes on
		if err := r.nats.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	end()
	r.finish(claim{}, d.records)
	select {
	case <-d.exited:
		t.Errorf("informd has ended: %v", d.err)
	default:
	}
}

// TestUnfitStreamIsRefused: a stream of the journal's name that would lose events is
// left as it is, and the error says what to change.
func TestUnfitStreamIsRefused(t *testing.T) {
	server := natsserver.Start(t, natsserver.Options{})
	nc, err := nats.Connect(server.URL())
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	_, err = js.CreateStream(t.Context(), jetstream.StreamConfig{
		Name: "INFORMD", Subjects: []string{"k8s.e2e.>"}, MaxAge: time.Hour, Discard: jetstream.DiscardOld, MaxMsgsPerSubject: 16, MaxBytes: 10 << 30,
	})
	if err != nil {
		t.Fatal(err)
	}
	d := newInformd(t, setup{kubeconfig: unreachable(t), resources: "- {resource: pods}", journal: natsJournal(server.URL())})
	d.refuses("stream INFORMD cannot be the journal", "max_age", "nats stream edit INFORMD --max-age=0", "discard", "--discard=new")
	if log := d.stderr.String(); strings.Contains(log, "max_bytes") || strings.Contains(log, "max_msgs_per_subject") {
		t.Errorf("a setting is named that is right: %s", log)
	}
}

// refuses runs informd, which is to end with exit code 1 and these words.
func (d *informd) refuses(words ...string) {
	d.t.Helper()
	d.start()
	if code := d.wait(); code != 1 {
		d.t.Errorf("exit code %d, want 1", code)
	}
	for _, w := range words {
		if !strings.Contains(d.stderr.String(), w) {
			d.t.Errorf("the log does not say %q:\n%s", w, d.stderr)
		}
	}
}

package jetstream_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	js "github.com/nats-io/nats.go/jetstream"

	"github.com/informd/informd/pkg/event"
	"github.com/informd/informd/pkg/journal"
	"github.com/informd/informd/pkg/journal/jetstream"
	"github.com/informd/informd/pkg/journal/journaltest"
)

func TestContract(t *testing.T) {
	journaltest.Run(t, func(t *testing.T) journal.Journal { return newHost(t).open() })
}

// TestRestart stops the server without closing the journal, on a copy of its files
// as kill -9 would leave them, and goes on where everything was.
func TestRestart(t *testing.T) {
	h := newHost(t)
	j := h.open()
	c := mustOpen(t, j, "bus", journal.FromSnapshot)
	var now clock
	a, b := &object{name: "a"}, &object{name: "b"}
	mustAppend(t, j, a.event(&now, event.Added), b.event(&now, event.Added), a.event(&now, event.Modified))
	mustAppend(t, j, b.event(&now, event.Deleted))
	if err := j.Mark(t.Context(), "core/configmaps", []byte("at 4")); err != nil {
		t.Fatal(err)
	}
	mustCommit(t, c, read(t, c, 2)[1].Seq)
	until(t, "the position is saved", func() bool { return savedPosition(t, h, "bus") == 2 })

	h.restartOn(h.copyDir())
	reopened := h.open()
	got := map[string]event.Event{}
	kept, err := reopened.Restore(t.Context(), "core/configmaps", func(e event.Event) { got[e.Name] = e })
	if err != nil || string(kept.Mark) != "at 4" || kept.Void {
		t.Errorf("checkpoint %+v, %v", kept, err)
	}
	if len(got) != 2 || got["a"].ResourceVersion != 3 || got["a"].Ordinal != 2 || got["b"].Op != event.Deleted || got["a"].Data != nil {
		t.Errorf("restored %+v", got)
	}
	for _, other := range []string{"core/configmaps@default", "core/configmaps@other", "core/secrets"} {
		n := 0
		if _, err := reopened.Restore(t.Context(), other, func(event.Event) { n++ }); err != nil {
			t.Errorf("Restore(%s): %v", other, err)
		}
		if want := map[string]int{"core/configmaps@default": 2}[other]; n != want {
			t.Errorf("%s has %d objects, want %d", other, n, want)
		}
	}
	last, ok, err := reopened.Last(t.Context(), &event.Event{Cluster: "test", Resource: "configmaps", Namespace: "default", Name: "a"})
	if err != nil || !ok || string(last.Data) != `{"object":{"rv":3}}` || last.Target != "core/configmaps" {
		t.Errorf("Last = %+v, %v, %v", last, ok, err)
	}
	if _, ok, err := reopened.Last(t.Context(), &event.Event{Cluster: "test", Resource: "configmaps", Name: "none"}); ok || err != nil {
		t.Errorf("Last of nothing = %v, %v", ok, err)
	}
	c = mustOpen(t, reopened, "bus", journal.FromNow)
	mustAppend(t, reopened, a.event(&now, event.Modified))
	if diff := cmp.Diff(describe("3 modified a-1:3", "4 deleted b-2:deleted", "5 modified a-1:5"), show(read(t, c, 3))); diff != "" {
		t.Errorf("entries (-want +got):\n%s", diff)
	}
	if got := reopened.Stats(); got.LastSeq != 5 || got.Lost != 0 {
		t.Errorf("stats = %+v", got)
	}
}

// savedPosition is what the server has of a sink's position.
func savedPosition(t *testing.T, h *host, sink string) uint64 {
	t.Helper()
	var p struct {
		Last uint64 `json:"last"`
	}
	record(t, h, "sink."+sink, &p)
	return p.Last
}

// TestAmnesia swaps the files for an older copy.
func TestAmnesia(t *testing.T) {
	h := newHost(t)
	j := h.open()
	c := mustOpen(t, j, "bus", journal.FromSnapshot)
	var now clock
	a, b := &object{name: "a"}, &object{name: "b"}
	mustAppend(t, j, a.event(&now, event.Added))
	old := h.copyDir()
	mustAppend(t, j, b.event(&now, event.Added), a.event(&now, event.Modified))
	if err := j.Mark(t.Context(), "core/configmaps", []byte("at 3")); err != nil {
		t.Fatal(err)
	}
	mustCommit(t, c, read(t, c, 3)[2].Seq)
	mustClose(t, c)
	stateOf(t, h.dir, old)

	h.restartOn(old)
	until(t, "the open journal notices", func() bool {
		return errors.Is(j.Append(t.Context(), []event.Event{a.event(&now, event.Modified)}), jetstream.ErrLost)
	})
	if _, err := c.Read(t.Context(), 1); err == nil {
		t.Error("Read of a closed cursor works")
	}
	mustClose(t, j)

	reopened := h.open()
	if got := reopened.Stats(); got.Lost != 2 {
		t.Errorf("lost = %d, want the mark and the sink", got.Lost)
	}
	// Later, new events with the lost sequences must not hide it.
	x := &object{name: "x"}
	mustAppend(t, reopened, x.event(&now, event.Added), x.event(&now, event.Modified), x.event(&now, event.Modified))
	mustClose(t, reopened)
	reopened = h.open()
	wantCheckpoint(t, reopened, "at 3", true)
	c = mustOpen(t, reopened, "bus", journal.FromNow)
	got := read(t, c, 2)
	if diff := cmp.Diff(describe("0 snapshot a-1:1", "4 snapshot "+x.uid+":7"), show(got)); diff != "" {
		t.Errorf("entries (-want +got):\n%s", diff)
	}
}

func TestBind(t *testing.T) {
	h := newHost(t)
	j := h.open()
	for range 2 {
		if err := j.Bind(t.Context(), "one"); err != nil {
			t.Fatal(err)
		}
	}
	for range 2 {
		if err := h.open().Bind(t.Context(), "two"); err == nil || !strings.Contains(err.Error(), "another Kubernetes cluster") {
			t.Errorf("Bind to another cluster = %v", err)
		}
	}
}

func TestRefusedSettings(t *testing.T) {
	h := newHost(t)
	_, err := h.client().CreateStream(t.Context(), js.StreamConfig{
		Name: "INFORMD", Subjects: []string{"k8s.>"}, Storage: js.MemoryStorage, Retention: js.InterestPolicy,
		MaxAge: time.Hour, MaxMsgs: 1000, MaxMsgsPerSubject: 5, MaxBytes: 1 << 20, MaxMsgSize: 1000, MaxConsumers: 9, DenyPurge: true,
	})
	if err != nil {
		t.Fatal(err)
	}
	_, err = jetstream.Open(t.Context(), h.config())
	if _, ok := errors.AsType[*jetstream.RefusedError](err); !ok {
		t.Fatalf("Open = %v", err)
	}
	for _, setting := range []string{
		"subjects", "storage", "retention", "discard", "max_age", "max_msgs", "max_msgs_per_subject", "max_bytes", "max_msg_size", "max_consumers", "deny_purge",
	} {
		if !strings.Contains(err.Error(), "\n  - "+setting+" is ") {
			t.Errorf("%s is not named in:\n%v", setting, err)
		}
	}
	info, err := h.client().Stream(t.Context(), "INFORMD")
	if err != nil || info.CachedInfo().Config.MaxMsgs != 1000 {
		t.Errorf("the stream was touched: %v", err)
	}
	h = newHost(t)
	h.open()
	for name, change := range map[string]func(*jetstream.Config){
		"historyPerObject": func(c *jetstream.Config) { c.HistoryPerObject = 8 },
		"maxBytes":         func(c *jetstream.Config) { c.MaxBytes = 1 << 20 },
	} {
		c := h.config()
		change(&c)
		if _, err := jetstream.Open(t.Context(), c); err == nil || !strings.Contains(err.Error(), "journal."+name) {
			t.Errorf("another %s: %v", name, err)
		}
	}
}

// TestOwn follows the config in a server of its own.
func TestOwn(t *testing.T) {
	h := newHost(t)
	j := h.open(history(16))
	var now clock
	a := &object{name: "a"}
	mustAppend(t, j, a.event(&now, event.Added))
	for range 9 {
		mustAppend(t, j, a.event(&now, event.Modified))
	}
	mustClose(t, j)
	mustClose(t, h.open(func(c *jetstream.Config) { c.Own, c.HistoryPerObject, c.MaxBytes = true, 4, 1<<20 }))
	if got := messages(t, h); got != 4 {
		t.Errorf("%d messages, want 4", got)
	}
}

// TestOwnRenamed: what a journal of one's own has been written for cannot change, and
// the refusal names what to do; there is no server to edit a stream in.
func TestOwnRenamed(t *testing.T) {
	for name, test := range map[string]struct {
		change func(c *jetstream.Config)
		want   string
	}{
		"cluster": {func(c *jetstream.Config) { c.Cluster = "prod-eu1" }, `for cluster "%[1]s", the config says "prod-eu1"`},
		"prefix":  {func(c *jetstream.Config) { c.SubjectPrefix = "a.b" }, `for journal.subjectPrefix "%[2]s", the config says "a.b"`},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHost(t)
			config := h.config()
			config.Own = true
			was := config
			mustClose(t, h.open(func(c *jetstream.Config) { c.Own = true }))
			test.change(&config)
			_, err := jetstream.Open(t.Context(), config)
			if want := fmt.Sprintf(test.want, was.Cluster, was.SubjectPrefix); err == nil || !strings.Contains(err.Error(), want) ||
				!strings.Contains(err.Error(), "use an empty journal.dir") || strings.Contains(err.Error(), "nats stream") {
				t.Errorf("error %v", err)
			}
		})
	}
}

// TestDistrust forgets the marks of a log that is known to be damaged, for good.
func TestDistrust(t *testing.T) {
	h := newHost(t)
	j := h.open()
	if err := j.Mark(t.Context(), "core/configmaps", []byte("here")); err != nil {
		t.Fatal(err)
	}
	checkpointed := func(j *jetstream.Journal, target string, want bool) {
		t.Helper()
		if valid, err := j.Checkpointed(t.Context(), target); valid != want || err != nil {
			t.Errorf("a valid checkpoint of %s: %v, %v; want %v", target, valid, err, want)
		}
	}
	checkpointed(j, "core/configmaps", true)
	checkpointed(j, "core/pods", false)
	mustClose(t, j)
	mustClose(t, h.open(func(c *jetstream.Config) { c.Distrust = true }))
	j = h.open()
	checkpointed(j, "core/configmaps", false)
	wantCheckpoint(t, j, "here", true)
}

// TestClose closes while the server is away and everything waits.
func TestClose(t *testing.T) {
	h := newHost(t)
	j := h.open()
	c := mustOpen(t, j, "bus", journal.FromNow)
	var now clock
	a := &object{name: "a"}
	mustAppend(t, j, a.event(&now, event.Added))
	h.stop()
	done := make(chan error, 4)
	waiting := func(f func(ctx context.Context) error) { go func() { done <- f(t.Context()) }() }
	more := a.event(&now, event.Modified)
	waiting(func(ctx context.Context) error { return j.Append(ctx, []event.Event{more}) })
	waiting(func(ctx context.Context) error { return j.Mark(ctx, "core/configmaps", nil) })
	waiting(func(ctx context.Context) error {
		_, err := j.Restore(ctx, "core/configmaps", func(event.Event) {})
		return err
	})
	waiting(func(ctx context.Context) error {
		for {
			if _, err := c.Read(ctx, 1); err != nil {
				return err
			}
		}
	})
	mustCommit(t, c, 1)
	until(t, "the append is blocked", func() bool { return j.Stats().Blocked == 1 })
	started := time.Now()
	mustClose(t, j)
	for range 4 {
		if err := <-done; !errors.Is(err, journal.ErrClosed) {
			t.Errorf("a waiting call ended with %v", err)
		}
	}
	if took := time.Since(started); took > 10*time.Second {
		t.Errorf("Close took %v", took)
	}
}

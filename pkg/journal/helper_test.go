package journal_test

import (
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/informd/informd/internal/form"
	"github.com/informd/informd/pkg/event"
	"github.com/informd/informd/pkg/journal"
	"github.com/informd/informd/pkg/journal/internal/disk/disktest"
)

// must ends a test that an error leaves nothing to check in.
func must(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
}

// logTest is a journal on a simulated disk, with objects that change.
type logTest struct {
	*journal.Journal

	t      *testing.T
	disk   *disktest.Disk
	config journal.Config
	rv     uint64
	last   map[string]event.Event
}

func newLogTest(t *testing.T, change ...func(*journal.Config)) *logTest {
	t.Helper()
	l := &logTest{t: t, disk: disktest.New(1), last: map[string]event.Event{}, config: journal.Config{Cluster: "test", Logger: slog.New(slog.DiscardHandler)}}
	for _, f := range change {
		f(&l.config)
	}
	l.open()
	t.Cleanup(func() { journal.Kill(l.Journal) })
	return l
}

func history(n int) func(*journal.Config) {
	return func(c *journal.Config) { c.HistoryPerObject = n }
}

func watched(f func(*event.Event) bool) func(*journal.Config) {
	return func(c *journal.Config) { c.Watched = f }
}

func (l *logTest) ok(err error) {
	l.t.Helper()
	must(l.t, err)
}

func (l *logTest) open() {
	l.t.Helper()
	var err error
	l.Journal, err = journal.OpenOn(l.disk, l.config, "boot", 560)
	l.ok(err)
}

// restart ends the process, cleanly or not.
func (l *logTest) restart(clean bool) {
	l.t.Helper()
	if clean {
		l.ok(l.Close())
	} else {
		journal.Kill(l.Journal)
	}
	l.open()
}

// void reports whether the checkpoint of ConfigMaps does not count.
func (l *logTest) void() bool {
	l.t.Helper()
	at, err := l.Restore(l.t.Context(), "core/configmaps", func(event.Event) {})
	l.ok(err)
	return at.Void
}

// clear removes what is not needed of what was appended before the last restart. Sinks that are not
// open count as such.
func (l *logTest) clear(short bool) {
	l.t.Helper()
	journal.Alone(l.Journal)
	l.ok(journal.Save(l.Journal))
	for range 2 { // the last event of an object goes after those before it
		l.ok(journal.Clear(l.t.Context(), l.Journal, short))
	}
}

func (l *logTest) cursor(name string, start journal.Start) *journal.Cursor {
	l.t.Helper()
	c, err := l.Open(name, start)
	l.ok(err)
	return c
}

// event is the next event of an object: "added a", "modified a", "deleted a", or "again a" of resync.
func (l *logTest) event(what string) event.Event {
	word, name, _ := strings.Cut(what, " ")
	op := event.Op(word)
	last := l.last[name]
	if word == "again" {
		last.Op, last.Replay = event.Snapshot, true
		last.SetRun(5000)
		return last
	}
	l.rv++
	if op == event.Added {
		last = event.Event{UID: fmt.Sprintf("%s-%d", name, l.rv)}
	}
	e := event.Event{
		ID: form.ObjectID(last.UID, l.rv, 0), Op: op, Time: time.Unix(1_700_000_000+int64(l.rv), 0).UTC(),
		Cluster: "test", Target: "core/configmaps", Version: "v1", Resource: "configmaps", Kind: "ConfigMap",
		Namespace: "default", Name: name, UID: last.UID, ResourceVersion: l.rv, PrevResourceVersion: last.ResourceVersion,
		Ordinal: last.Ordinal + 1, Data: fmt.Appendf(nil, `{"object":{"rv":%d}}`, l.rv),
	}
	if op == event.Deleted {
		e.ID = form.DeletedID(e.UID, 0)
	}
	l.last[name] = e
	return e
}

// add appends events one by one; "begin 3" and "synced 3" are bounds of run 3.
func (l *logTest) add(events ...string) {
	l.t.Helper()
	for _, what := range events {
		word, run, _ := strings.Cut(what, " ")
		var e event.Event
		if op := event.Op(word); op.Bounds() {
			var n uint64
			_, err := fmt.Sscan(run, &n)
			l.ok(err)
			e = bound(op, "core/configmaps", n)
		} else {
			e = l.event(what)
		}
		l.append(e)
	}
}

func (l *logTest) append(events ...event.Event) {
	l.t.Helper()
	l.ok(l.Append(l.t.Context(), events))
}

func bound(op event.Op, target string, run uint64) event.Event {
	e := event.Event{Cluster: "test", Target: target, Version: "v1", Resource: "configmaps", Kind: "ConfigMap"}
	e.SetBound(op, run, 5)
	return e
}

// commit commits all that there is, or up to an entry.
func (l *logTest) commit(c *journal.Cursor, at ...journal.Entry) {
	l.t.Helper()
	seq := l.Stats().LastSeq
	if len(at) > 0 {
		seq = at[0].Seq
	}
	l.ok(c.Commit(seq))
}

// read returns all that there is, or so many entries.
func (l *logTest) read(c *journal.Cursor, limit ...int) (all []journal.Entry) {
	l.t.Helper()
	l.ok(journal.SyncAll(l.t.Context(), l.Journal))
	for {
		n := 100
		if len(limit) > 0 {
			n = limit[0] - len(all)
		}
		if n == 0 {
			return all
		}
		entries, err := journal.Poll(l.t.Context(), c, n)
		l.ok(err)
		if len(entries) == 0 {
			return all
		}
		all = append(all, entries...)
	}
}

// want compares what a cursor returns with lines of [show], up to the end if there are no more.
func (l *logTest) want(c *journal.Cursor, lines ...string) {
	l.t.Helper()
	if diff := cmp.Diff(lines, show(l.read(c)), cmp.Transformer("", func(s []string) string { return strings.Join(s, "\n") })); diff != "" {
		l.t.Errorf("entries (-want +got):\n%s", diff)
	}
}

// show is a line for each entry: "-" if it has no sequence, the operation, name and revision of the
// object, the run if it is small, and "again" if it was delivered before; of a gap the number of events.
func show(entries []journal.Entry) (lines []string) {
	for _, e := range entries {
		x := &e.Event
		line := string(x.Op)
		if e.Seq == 0 {
			line = "- " + line
		}
		switch {
		case x.Gap != nil:
			line += fmt.Sprint(" ", x.Gap.Trimmed)
		case !x.Op.Control():
			line += fmt.Sprint(" ", x.Name, x.ResourceVersion)
		}
		if x.Run != 0 && x.Run < 1e12 {
			line += fmt.Sprint(" run ", x.Run)
		}
		if x.Redelivered {
			line += " again"
		}
		lines = append(lines, line)
	}
	return lines
}

package journal_test

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/informd/informd/internal/display"
	"github.com/informd/informd/internal/form"
	"github.com/informd/informd/pkg/event"
	"github.com/informd/informd/pkg/journal"
)

// damage ends the process, changes a byte of an event's data on the disk, and opens the journal again.
func (l *logTest) damage(data string) {
	l.t.Helper()
	l.ok(journal.Save(l.Journal))
	l.ok(journal.SyncAll(l.t.Context(), l.Journal))
	journal.Kill(l.Journal)
	names, err := l.disk.Names()
	l.ok(err)
	for _, name := range names {
		index := strings.Replace(name, ".log", ".idx", 1)
		at := bytes.Index(l.disk.Content(name), []byte(data))
		if at < 0 || name == index {
			continue
		}
		l.disk.Flip(name, 8*at)
		if slices.Contains(names, index) { // with it, only a read finds the damage
			l.ok(l.disk.Remove(index))
		}
	}
	l.open()
}

// TestDamagedSnapshotHasNoEnd: after damage a sink gets the end of no snapshot from before, also if it asks again or
// comes back: it may have got no more than a part. Those of the first lists that follow end.
func TestDamagedSnapshotHasNoEnd(t *testing.T) {
	l := newLogTest(t)
	c := l.cursor("bus", journal.FromNow)
	of := func(op event.Op, run uint64) event.Event { return bound(op, "core/secrets", run) }
	l.append(of(event.Begin, 1), of(event.Synced, 1), of(event.Begin, 2))
	l.add("begin 3", "added a", "added b", "added c")
	l.append(of(event.Synced, 2), of(event.Begin, 4), of(event.Synced, 4))
	l.add("synced 3", "added d")
	l.commit(c, l.read(c, 5)[4])
	l.ok(c.Request(t.Context(), again(7, "core/configmaps"))) // the first lists that follow take its place
	l.damage(`{"rv":2}`)
	for _, want := range [][]string{{"- gap 2", "begin run 4", "added d4"}, {"added d4"}} {
		c = l.cursor("bus", journal.FromNow)
		l.want(c, want...)
		l.ok(c.Reset(t.Context()))
		some := l.read(c, min(2, len(want)))
		l.commit(c, some[len(some)-1])
		l.ok(journal.Save(l.Journal))
		l.restart(false)
	}
	c = l.cursor("bus", journal.FromNow)
	l.add("begin 5", "added b", "synced 5")
	l.want(c, "begin run 5", "added b5", "synced run 5")
}

// TestSnapshotOfALongAbsence: the log keeps nothing that a sink lacks which was away for too long. It gets no
// end of a snapshot whose events are gone.
func TestSnapshotOfALongAbsence(t *testing.T) {
	for name, test := range map[string]struct {
		away time.Duration
		want []string
	}{
		"short": {time.Hour, []string{"begin run 3", "added a1", "added b2", "synced run 3", "modified a3"}},
		"long":  {time.Nanosecond, []string{"begin run 3", "- gap 1", "added b2", "modified a3"}},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLogTest(t, history(1), func(c *journal.Config) { c.DeletedRetention = test.away })
			c, other := l.cursor("bus", journal.FromNow), l.cursor("other", journal.FromNow)
			l.ok(c.Close())
			l.add("begin 3", "added a", "added b", "synced 3", "modified a")
			l.read(other)
			l.commit(other)
			l.restart(true)
			l.cursor("other", journal.FromNow)
			l.clear(false)
			c = l.cursor("bus", journal.FromNow)
			l.want(c, test.want...)
			l.add("begin 4", "synced 4")
			l.want(c, "begin run 4", "synced run 4")
		})
	}
}

// TestReturnDuringAPass: such a sink comes back while what it lacks is about to be removed. It gets no end of the
// snapshot, although all events of it are there when it is opened.
func TestReturnDuringAPass(t *testing.T) {
	l := newLogTest(t, history(1), func(c *journal.Config) { c.DeletedRetention = time.Nanosecond })
	l.ok(l.cursor("bus", journal.FromNow).Close())
	l.cursor("other", journal.FromNow)
	l.add("begin 3", "added a", "added b", "synced 3", "modified a")
	l.restart(true)
	l.commit(l.cursor("other", journal.FromNow))
	journal.Alone(l.Journal)
	opened := make(chan *journal.Cursor, 1)
	l.ok(journal.DuringAPass(t.Context(), l.Journal, func() {
		go func() { opened <- l.cursor("bus", journal.FromNow) }()
		waitFor(t, "the sink is known", func() bool { return journal.Cursors(l.Journal) == 2 })
		select {
		case c := <-opened:
			t.Error("the sink is open before the pass is over")
			opened <- c
		case <-time.After(50 * time.Millisecond): // it waits for the pass
		}
	}))
	l.want(<-opened, "begin run 3", "- gap 1", "added b2", "modified a3")
}

// damagedSnapshot is a journal that lacks an object of the snapshot at its end, and a sink that gets it.
func damagedSnapshot(t *testing.T) (*logTest, *journal.Cursor) {
	t.Helper()
	l := newLogTest(t)
	l.cursor("bus", journal.FromNow)
	l.add("begin 3", "added a", "added b", "added c", "synced 3")
	l.damage(`{"rv":2}`)
	return l, l.cursor("bus", journal.FromNow)
}

// commitAll commits all that there is to read.
func (l *logTest) commitAll(c *journal.Cursor) {
	l.t.Helper()
	all := l.read(c)
	l.commit(c, all[len(all)-1])
}

// TestWithheldEndIsNoLag: a sink that has committed all that it got lacks nothing.
func TestWithheldEndIsNoLag(t *testing.T) {
	l, c := damagedSnapshot(t)
	l.commitAll(c)
	if lag := c.Lag(); lag.Events != 0 {
		t.Errorf("lag %+v after the commit of all that was read", lag)
	}
}

// TestRequestAfterDamage: a request after a start with damage stays when the sink is closed and opened again, as
// by two reloads of the config.
func TestRequestAfterDamage(t *testing.T) {
	l, c := damagedSnapshot(t)
	l.add("begin 4", "modified a", "modified c", "synced 4") // the first lists are over
	l.commitAll(c)
	l.ok(c.Request(t.Context(), again(7, "core/configmaps")))
	l.ok(c.Close())
	l.want(l.cursor("bus", journal.FromNow), "- begin run 7", "- snapshot a4 run 7", "- snapshot c5 run 7", "- synced run 7")
}

// TestDamagedCheckpoint: damage has taken the checkpoint of a target. A snapshot for a new sink has no end of the
// target before its next list, also if the sink is faster than the target.
func TestDamagedCheckpoint(t *testing.T) {
	l := newLogTest(t)
	l.add("begin 3", "added a", "added b", "synced 3")
	l.ok(l.Mark(t.Context(), "core/configmaps", []byte(`"the checkpoint"`)))
	l.add("modified a")
	l.damage("the checkpoint")
	for range 2 {
		l.want(l.cursor("bus", journal.FromSnapshot), "- begin", "- snapshot a1", "snapshot b2")
		l.restart(false)
	}
}

// TestReadDamagedDir: the history of a journal with damage says where that is. Nothing changes in the directory.
func TestReadDamagedDir(t *testing.T) {
	c := testConfig(t)
	j := openJournal(t, c)
	must(t, errors.Join(j.Append(t.Context(), numbered("a", 3)), j.Close()))
	logs, err := filepath.Glob(filepath.Join(c.Dir, "*.log"))
	if err != nil || len(logs) != 1 {
		t.Fatal(logs, err)
	}
	content, err := os.ReadFile(logs[0])
	if at := bytes.Index(content, []byte("na2")); at >= 0 {
		content[at] ^= 1
	}
	must(t, errors.Join(err, os.WriteFile(logs[0], content, 0o600)))
	before := contents(t, c.Dir)
	h, closing, err := journal.ReadDir(c.Dir)
	must(t, err)
	of := journal.Object{Group: "core", Resource: "configmaps", Namespace: "default", Name: "na2"}
	err = h.Each(t.Context(), of, func(event.Event) error { return nil })
	if err == nil || !strings.Contains(err.Error(), filepath.Base(logs[0])) {
		t.Errorf("a damaged event: %v", err)
	}
	of.Name = "na1"
	err = h.Each(t.Context(), of, func(event.Event) error { return nil })
	if err != nil && strings.Contains(err.Error(), "permission") {
		t.Errorf("another object: %v", err)
	}
	if diff := cmp.Diff(before, contents(t, c.Dir)); closing() != nil || diff != "" {
		t.Errorf("files (-before +after):\n%s", diff)
	}
}

// TestGapsStay: the gaps of targets and those that a sink alone got are in the history, in their
// order, also for a later process. Of a sink the newest 16 stay.
func TestGapsStay(t *testing.T) {
	var log strings.Builder
	l := newLogTest(t, history(1), func(c *journal.Config) { c.Logger = slog.New(slog.NewTextHandler(&log, nil)) })
	fast, slow := l.cursor("fast", journal.FromNow), l.cursor("slow", journal.FromNow)
	l.add("added a", "added b")
	l.commit(slow)
	l.ok(slow.Close())
	l.add("modified a", "modified a", "deleted a", "added a", "modified a", "modified a", "modified b", "deleted b")
	l.commit(fast)
	l.restart(true)
	l.cursor("fast", journal.FromNow)
	l.clear(true)
	slow = l.cursor("slow", journal.FromNow)
	lacks := uint64(0)
	for range 20 { // as a sink that fails does
		lacks = 0
		for _, e := range l.read(slow) {
			if e.Event.Gap != nil {
				lacks += e.Event.Gap.Trimmed
			}
		}
		l.ok(slow.Reset(t.Context()))
	}
	gap := event.Event{
		ID: form.GapID("core/configmaps", 3, 9, 0), Op: event.Gap, Cluster: "test", Target: "core/configmaps", Time: time.Now().UTC().Add(time.Hour).Truncate(time.Microsecond),
		Gap: &event.GapInfo{From: 3, To: 9, Reason: "expired", Recovered: event.RecoveredState},
	}
	l.append(gap)
	l.restart(false)
	var got []string
	kept := uint64(0)
	l.ok(l.History().EachGap(t.Context(), func(e event.Event) error {
		kept += e.Gap.Trimmed
		if line := fmt.Sprintf("%s %s", e.Gap.Reason, e.GapSink()); len(got) == 0 || got[len(got)-1] != line {
			got = append(got, line)
		}
		return nil
	}))
	if diff := cmp.Diff([]string{"trimmed slow", "expired "}, got); diff != "" || kept != lacks || lacks == 0 {
		t.Errorf("gaps (-want +got):\n%s; they count %d events, the sink lacks %d", diff, kept, lacks)
	}

	if !strings.Contains(log.String(), "runbook="+display.GapRunbook("trimmed")+"\n") {
		t.Errorf("the log does not lead to the runbook of the gap:\n%s", log.String())
	}

	slow = l.cursor("slow", journal.FromNow)
	for i := range uint64(20) {
		gap.ID, gap.Target, gap.Gap = form.TrimmedID("slow", 1000+i, 1000+i), event.AllTargets, &event.GapInfo{Reason: "trimmed", Recovered: event.RecoveredState, Trimmed: 100 + i}
		slow.KeepGap(gap)
	}
	var newest []uint64
	l.ok(l.History().EachGap(t.Context(), func(e event.Event) error {
		if e.GapSink() != "" {
			newest = append(newest, e.Gap.Trimmed)
		}
		return nil
	}))
	if len(newest) != 16 || newest[0] != 104 || newest[15] != 119 {
		t.Errorf("of 20 gaps these stay: %v", newest)
	}
}

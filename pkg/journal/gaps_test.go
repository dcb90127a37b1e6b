package journal_test

import (
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/informd/informd/internal/display"
	"github.com/informd/informd/pkg/event"
	"github.com/informd/informd/pkg/journal"
)

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
		ID: event.GapID("core/configmaps", 3, 9, 0), Op: event.Gap, Cluster: "test", Target: "core/configmaps", Time: time.Now().UTC().Add(time.Hour).Truncate(time.Microsecond),
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
		gap.ID, gap.Target, gap.Gap = event.TrimmedID("slow", 1000+i, 1000+i), event.AllTargets, &event.GapInfo{Reason: "trimmed", Recovered: event.RecoveredState, Trimmed: 100 + i}
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

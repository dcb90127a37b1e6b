package dynwatch_test

import (
	"strings"
	"testing"

	"github.com/informd/informd/pkg/dynwatch"
	"github.com/informd/informd/pkg/event"
)

// TestLogLostBefore: a process that begins with a log which has lost everything says so,
// also if it dies before its first list is complete.
func TestLogLostBefore(t *testing.T) {
	api := newFakeAPI(t, "a/x")
	r := newRig(t, api)
	r.log.void = true
	r.goLive(things())
	r.until(0, event.Synced)
	got := lines(r.log.all())
	if len(got) != 3 || !strings.HasPrefix(got[0], "snapshot a/x") || !strings.HasPrefix(got[1], "gap (0,") || !strings.Contains(got[1], "journal state") {
		t.Errorf("events\n%s", strings.Join(got, "\n"))
	}
}

func count(events []event.Event, op event.Op) (n int) {
	for i := range events {
		if events[i].Op == op {
			n++
		}
	}
	return n
}

// TestLostJournalAnnouncesTheUnchanged: behind a void checkpoint an object comes again also if
// nothing has changed since its last event that a change filter of the resource, or of a reader
// of the log, asks about.
func TestLostJournalAnnouncesTheUnchanged(t *testing.T) {
	ofReader := things()
	ofReader.SinkFilters = []string{"metadata.labels"}
	for name, wanted := range map[string]dynwatch.Resource{"of the resource": filtered(), "of a reader": ofReader} {
		t.Run(name, func(t *testing.T) {
			api := newFakeAPI(t, "a/x 1", "a/y 1")
			r, n := liveFrom(t, api, wanted)
			r.stop(false)
			r.log.set(func() { r.log.void = true })
			api.put("a", "x", "1") // 103
			r.begin(wanted)
			r.announcesAll(n)
			for _, e := range r.log.all()[n:] {
				if !e.Op.Control() && e.Op != event.Snapshot {
					t.Errorf("%s: a change filter decides about it", lines([]event.Event{e}))
				}
			}
			checkStream(t, r.log.all(), r.api)
		})
	}
}

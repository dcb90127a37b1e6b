package daemon

import (
	"testing"

	"github.com/informd/informd/internal/admin"
)

// TestJournalUsableBeforeItIsOpen: the series exists from the start, so that an alert fires
// for a journal that cannot be opened then. A follower has no series.
func TestJournalUsableBeforeItIsOpen(t *testing.T) {
	d := &Daemon{}
	c := newUsableCollector(d.journalUsable)
	if values := scrape(t, c); len(values) != 1 || values["informd_journal_usable"] != 0 {
		t.Errorf("before the journal is open: %v", values)
	}
	d.follower.Store(&admin.Follower{})
	if values := scrape(t, c); len(values) != 0 {
		t.Errorf("of a follower: %v", values)
	}
	d.follower.Store(nil)
	d.pipeline.Store(&pipeline{store: &clusterJournal{Journal: emptyJournal(t)}})
	if values := scrape(t, c); values["informd_journal_usable"] != 1 {
		t.Errorf("with an open journal: %v", values)
	}
}

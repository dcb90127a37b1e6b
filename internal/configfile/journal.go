package configfile

import (
	"github.com/informd/informd/internal/config"
	"github.com/informd/informd/pkg/sink"
)

func (r *checker) checkJournal(c *config.Config) {
	if r.Bad("journal.type") {
		return // which of the keys count is not known
	}
	j := &c.Journal
	r.refuse(r.given("journal.sync") && j.Type != config.JournalLog, "journal.sync",
		"is a key of journals of type %s, and this one is of type %s: remove the key, or set type", config.JournalLog, j.Type)
	r.refuse(j.Dir == "", "journal.dir", "is empty: name a directory, or remove the key for %s", config.StateDir())
	j.DirSet = r.given("journal.dir")
	r.checkJournalBytes(j)
	r.refuse(j.HistoryPerObject < 1, "journal.historyPerObject", "must be at least 1: informd needs the last event of each object")
	r.refuse(j.DeletedRetention <= 0, "journal.deletedRetention", "must be more than 0: it is how long a consumer may be away and still get a deletion, as in 168h")
}

// checkJournalBytes also fills in the default, which depends on the type.
func (r *checker) checkJournalBytes(j *config.Journal) {
	switch {
	case r.Bad("journal.maxBytes"):
	case !r.given("journal.maxBytes") && j.Type == config.JournalMemory:
		j.MaxBytes = config.DefaultMemoryBytes
	case !r.given("journal.maxBytes"):
		j.MaxBytes = config.DefaultBytes
	case j.MaxBytes < sink.MiB:
		r.fail("journal.maxBytes", "must be at least 1MiB: it is the capacity for events that the slowest sink has not read, as in 64MiB")
	}
}

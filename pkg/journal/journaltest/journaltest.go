// Package journaltest opens journals for tests.
package journaltest

import (
	"log/slog"
	"testing"

	"github.com/informd/informd/pkg/journal"
)

// Open opens an empty journal in a directory of the test, without syncs, until the test ends. Change may
// adapt its config. In a bubble of synctest, t is that of the bubble.
func Open(t testing.TB, change ...func(*journal.Config)) *journal.Journal {
	t.Helper()
	c := journal.Config{Cluster: "test", Logger: slog.New(slog.DiscardHandler)}
	for _, f := range change {
		f(&c)
	}
	j, err := journal.OpenTemporary(t.TempDir(), c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = j.Close() }) // the test may have closed it
	return j
}

// MaxBytes has Open set the limit of the journal.
func MaxBytes(n int64) func(*journal.Config) {
	return func(c *journal.Config) { c.MaxBytes = n }
}

package journaltest

import (
	"bytes"
	"context"
	"log/slog"
	"slices"
	"sync"
	"testing"

	"github.com/informd/informd/pkg/journal"
)

// Journal is the journal of a test or benchmark. In a test it spoils the Data of events once their reader
// has committed them, so that the test sees who has kept it.
type Journal struct {
	*journal.Disk

	spoils bool
}

// Open opens an empty journal in a directory of the test, without syncs, until the test ends. Change may
// adapt its config. In a bubble of synctest, t is that of the bubble.
func Open(t testing.TB, change ...func(*journal.DiskConfig)) *Journal {
	t.Helper()
	c := journal.DiskConfig{Cluster: "test", Logger: slog.New(slog.DiscardHandler)}
	for _, f := range change {
		f(&c)
	}
	j, err := journal.OpenTemporary(t.TempDir(), c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = j.Close() }) // the test may have closed it
	_, measured := t.(*testing.B)
	return &Journal{j, !measured}
}

// MaxBytes has Open set the limit of the journal.
func MaxBytes(n int64) func(*journal.DiskConfig) {
	return func(c *journal.DiskConfig) { c.MaxBytes = n }
}

// Open implements [journal.Journal].
func (j *Journal) Open(name string, start journal.Start) (journal.Cursor, error) {
	c, err := j.Disk.Open(name, start)
	if err != nil || !j.spoils {
		return c, err
	}
	return &spoiling{Cursor: c}, nil
}

// spoiling is a cursor whose Data lasts until its commit, and no longer.
type spoiling struct {
	journal.Cursor

	mu   sync.Mutex
	read []journal.Entry // and not committed, with their own Data
}

// Read implements [journal.Reader].
func (s *spoiling) Read(ctx context.Context, limit int) ([]journal.Entry, error) {
	entries, err := s.Cursor.Read(ctx, limit)
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range entries {
		entries[i].Event.Data = bytes.Clone(entries[i].Event.Data)
	}
	s.read = append(s.read, entries...)
	return entries, err
}

// Commit implements [journal.Keeper].
func (s *spoiling) Commit(ctx context.Context, seq uint64) error {
	err := s.Cursor.Commit(ctx, seq)
	s.mu.Lock()
	defer s.mu.Unlock()
	passed := 0
	for i := range s.read {
		if n := s.read[i].Seq; n != 0 && n <= seq {
			passed = i + 1
		}
	}
	for _, e := range s.read[:passed] {
		for i := range e.Event.Data {
			e.Event.Data[i] = '!'
		}
	}
	s.read = slices.Delete(s.read, 0, passed)
	return err
}

// Reset implements [journal.Reader].
func (s *spoiling) Reset(ctx context.Context) error {
	s.mu.Lock()
	s.read = nil // it comes again
	s.mu.Unlock()
	return s.Cursor.Reset(ctx)
}

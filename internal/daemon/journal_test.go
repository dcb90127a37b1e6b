package daemon

import (
	"bytes"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/informd/informd/internal/admin"
	"github.com/informd/informd/internal/config"
)

// logBuffer is a log that is written by several at a time.
type logBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *logBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *logBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// TestJournalDirRemoved: the journal fails when its directory is gone, and names it: the process
// ends, and its supervisor begins another one.
func TestJournalDirRemoved(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "journal")
	c := &config.Config{Cluster: "test", Journal: config.Journal{Type: config.JournalLog, Dir: dir, MaxBytes: 64 << 20, HistoryPerObject: 16, DeletedRetention: time.Hour}}
	st, err := openJournal(t.Context(), c, nil, slog.New(slog.DiscardHandler))
	must(t, err)
	t.Cleanup(func() { _ = st.Close() }) // it cannot write there
	must(t, os.RemoveAll(dir))
	select {
	case <-st.Failed():
	case <-time.After(time.Minute):
		t.Fatal("not failed")
	}
	if err := st.Failure(); !strings.Contains(err.Error(), "removed") {
		t.Errorf("the failure does not say why: %v", err)
	}
}

// TestMemoryJournal leaves nothing behind. It is below journal.dir if that is set, or if nothing else
// is writable, as in a Pod.
func TestMemoryJournal(t *testing.T) {
	for name, test := range map[string]struct{ set, readOnly, inDir bool }{
		"no journal.dir": {}, "with journal.dir": {set: true, inDir: true}, "nothing else is writable": {readOnly: true, inDir: true},
	} {
		t.Run(name, func(t *testing.T) {
			elsewhere, dir := t.TempDir(), filepath.Join(t.TempDir(), "new")
			t.Setenv("TMPDIR", elsewhere)
			if test.readOnly {
				t.Setenv("TMPDIR", "/proc/none")
			}
			c := &config.Config{Cluster: "test", Journal: config.Journal{Type: config.JournalMemory, Dir: dir, DirSet: test.set, MaxBytes: 1 << 20}}
			st, err := openJournal(t.Context(), c, nil, slog.New(slog.DiscardHandler))
			must(t, err)
			used, unused := elsewhere, dir
			if test.inDir {
				used, unused = dir, elsewhere
			}
			if n, others := entries(t, used), entries(t, unused); n != 1 || others != 0 {
				t.Errorf("%d entries, and %d in the other directory", n, others)
			}
			if err := st.Close(); err != nil {
				t.Error(err)
			}
			if n := entries(t, used); n != 0 {
				t.Errorf("%d entries are left", n)
			}
		})
	}
}

// entries counts what is in a directory, which need not exist.
func entries(t *testing.T, dir string) int {
	t.Helper()
	found, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	return len(found)
}

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

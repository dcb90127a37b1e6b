package journal_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/informd/informd/pkg/event"
	"github.com/informd/informd/pkg/journal"
)

// holdIn has the test program open a temporary journal in this directory, and do nothing more.
const holdIn = "JOURNAL_TEST_HOLD_IN"

func TestMain(m *testing.M) {
	if parent := os.Getenv(holdIn); parent != "" {
		j, err := journal.OpenTemporary(parent, temporaryConfig())
		_, _ = fmt.Fprintln(os.Stdout, err)
		_, _ = io.Copy(io.Discard, os.Stdin) // until it is killed
		_ = j.Close()                        // the test ends it otherwise
		return
	}
	goleak.VerifyTestMain(m)
}

func temporaryConfig() journal.Config {
	return journal.Config{Cluster: "test", Logger: slog.New(slog.DiscardHandler)}
}

func openTemporary(t *testing.T, parent string) *journal.Journal {
	t.Helper()
	j, err := journal.OpenTemporary(parent, temporaryConfig())
	must(t, err)
	return j
}

func TestTemporary(t *testing.T) {
	testContract(t, func(t *testing.T) *journal.Journal { return openTemporary(t, t.TempDir()) })
}

// names returns what is in a directory, in order.
func names(t *testing.T, dir string) (all []string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	must(t, err)
	for _, entry := range entries {
		all = append(all, entry.Name())
	}
	return all
}

// TestTemporaryLeftovers: a new temporary journal deletes the directories that killed processes have
// left, and neither those of living ones nor what is not informd's. Close leaves nothing.
func TestTemporaryLeftovers(t *testing.T) {
	parent, elsewhere := t.TempDir(), t.TempDir()
	others := []string{"informd-memory-file", "informd-memory-link", "other"}
	must(t, errors.Join(
		os.WriteFile(filepath.Join(parent, others[0]), nil, 0o600), os.Symlink(elsewhere, filepath.Join(parent, others[1])),
		os.Mkdir(filepath.Join(parent, others[2]), 0o700), os.WriteFile(filepath.Join(elsewhere, "kept"), nil, 0o600),
		os.Mkdir(filepath.Join(parent, "informd-memory-0"), 0o700), // killed before it had a lock
	))
	if os.Geteuid() == 0 {
		foreign := "informd-memory-foreign"
		must(t, errors.Join(os.Mkdir(filepath.Join(parent, foreign), 0o700), os.Chown(filepath.Join(parent, foreign), 12345, 12345)))
		others = append(others, foreign)
	}
	want := func(when string, journals int) {
		t.Helper()
		all := names(t, parent)
		n := len(all)
		for _, other := range others {
			if !slices.Contains(all, other) {
				t.Errorf("%s: %s was deleted", when, other)
			}
			n--
		}
		if n != journals {
			t.Errorf("%s: %v, want %d journals", when, all, journals)
		}
	}
	child := exec.CommandContext(t.Context(), os.Args[0])
	child.Env = append(os.Environ(), holdIn+"="+parent)
	stdin, err := child.StdinPipe()
	must(t, err)
	defer stdin.Close() //nolint:errcheck // nothing was written to it
	output, err := child.StdoutPipe()
	must(t, err)
	must(t, child.Start())
	if line, err := bufio.NewReader(output).ReadString('\n'); strings.TrimSpace(line) != "<nil>" {
		t.Fatal("the other process has not opened its journal:", line, err)
	}
	first := openTemporary(t, parent)
	want("beside a living process", 2)
	must(t, child.Process.Kill())
	_ = child.Wait() // it was killed
	want("after the process was killed", 2)
	second := openTemporary(t, parent)
	want("after the next start", 2)
	must(t, errors.Join(first.Append(t.Context(), numbered("e", 10)), first.Close(), second.Close()))
	want("after Close", 0)
	if got := names(t, elsewhere); len(got) != 1 {
		t.Errorf("a link was followed: %v", got)
	}
}

// TestTemporaryTogether: processes that start together take no new directory for a leftover.
func TestTemporaryTogether(t *testing.T) {
	parent := t.TempDir()
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for range 20 {
				j, err := journal.OpenTemporary(parent, temporaryConfig())
				if err != nil {
					t.Error(err)
					return
				}
				if err := errors.Join(j.Append(t.Context(), numbered("e", 3)), j.Close()); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	if left := names(t, parent); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
}

// TestTemporaryIsPrivate: others can read nothing of it.
func TestTemporaryIsPrivate(t *testing.T) {
	parent := t.TempDir()
	j := openTemporary(t, parent)
	info, err := os.Stat(filepath.Join(parent, names(t, parent)[0]))
	if err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
	if got := j.Stats().Capacity; got != 64<<20 {
		t.Errorf("its default limit is %d bytes", got)
	}
	must(t, j.Close())
}

// openSmall opens a temporary journal of 1 MiB.
func openSmall(t *testing.T) *journal.Journal {
	t.Helper()
	c := temporaryConfig()
	c.MaxBytes = 1 << 20
	j, err := journal.OpenTemporary(t.TempDir(), c)
	must(t, err)
	return j
}

// TestTemporaryIsSmall: objects come and go, of which many more exist at a time than the log has space
// for. Append goes on as sinks do, and they get every event; while one does not, Append waits.
func TestTemporaryIsSmall(t *testing.T) {
	j := openSmall(t)
	sink, err := j.Open("sink", journal.FromNow)
	must(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	var all []event.Event
	for _, op := range []event.Op{event.Added, event.Modified, event.Deleted} {
		for i := range 2000 {
			all = append(all, pod(op, i, 2000))
		}
	}
	appended := make(chan error, 1)
	go func() {
		for i := range all {
			if err := j.Append(ctx, all[i:i+1]); err != nil {
				appended <- fmt.Errorf("event %d: %w; %+v", i, err, j.Stats())
				return
			}
		}
		appended <- nil
	}()
	waitFor(t, "Append waits for the sink", func() bool { return j.Stats().Blocked == 1 })
	for i := range all {
		entries, err := sink.Read(ctx, 1)
		if err != nil {
			t.Fatalf("event %d: %v; %+v", i, err, j.Stats())
		}
		if e := entries[0].Event; e.ID != all[i].ID || len(e.Data) != 2000 {
			t.Fatalf("event %d is %s %s of %d bytes", i, e.Op, e.ID, len(e.Data))
		}
		must(t, sink.Commit(entries[0].Seq))
	}
	must(t, errors.Join(<-appended, j.Close()))
}

// fill appends events of objects of their own until the journal is full and Append waits; it returns
// what that returns in the end.
func fill(ctx context.Context, t *testing.T, j *journal.Journal, prefix string) (done chan error) {
	t.Helper()
	done = make(chan error, 1)
	blocked := j.Stats().Blocked
	go func() {
		for {
			all := numbered(prefix, 100)
			for i := range all {
				all[i].Data = make([]byte, 2000)
			}
			prefix += "x"
			if err := j.Append(ctx, all); err != nil {
				done <- err
				return
			}
		}
	}()
	waitFor(t, "the journal is full", func() bool { return j.Stats().Blocked > blocked })
	return done
}

// TestFullWithoutSinks: while the first sink may be about to come nothing is removed, and Append waits. It ends with
// its context, and with the journal.
func TestFullWithoutSinks(t *testing.T) {
	j := openSmall(t)
	ctx, cancel := context.WithCancel(t.Context())
	first := fill(ctx, t, j, "a")
	cancel()
	if err := <-first; !errors.Is(err, context.Canceled) {
		t.Errorf("Append = %v", err)
	}
	second := fill(t.Context(), t, j, "b")
	must(t, j.Close())
	if err := <-second; !errors.Is(err, journal.ErrClosed) {
		t.Errorf("Append = %v", err)
	}
}

// TestClosedCursorHoldsNothingBack: a full journal has space again when the sink that is behind is closed.
func TestClosedCursorHoldsNothingBack(t *testing.T) {
	j := openSmall(t)
	behind, err := j.Open("behind", journal.FromNow)
	must(t, err)
	other, err := j.Open("other", journal.FromNow)
	must(t, err)
	go keepUp(t.Context(), t, other)
	filling := fill(t.Context(), t, j, "a")
	last := j.Stats().LastSeq
	must(t, behind.Close())
	waitFor(t, "Append goes on", func() bool { return j.Stats().LastSeq > 2*last })
	must(t, j.Close())
	if err := <-filling; !errors.Is(err, journal.ErrClosed) {
		t.Errorf("Append = %v", err)
	}
}

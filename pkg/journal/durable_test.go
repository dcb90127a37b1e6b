package journal_test

import (
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/informd/informd/pkg/event"
	"github.com/informd/informd/pkg/journal"
	"github.com/informd/informd/pkg/journal/internal/disk"
	"github.com/informd/informd/pkg/journal/internal/disk/disktest"
)

// TestStatesAreDurable: a change may be read before it is synced, and before followers have it. A
// snapshot must not announce it as a state then. All before a first snapshot is synced when its sink is opened.
func TestStatesAreDurable(t *testing.T) {
	t.Run("disk", func(t *testing.T) {
		s := newStateTest(t, false)
		answer, _ := s.holdSyncs()
		s.change()
		s.wantNoState()
		answer()
		s.wantState()
	})
	t.Run("disk, which syncs already", func(t *testing.T) {
		s := newStateTest(t, false)
		answer, called := s.holdSyncs()
		s.change()
		synced := make(chan error)
		go func() { synced <- journal.SyncAll(t.Context(), s.Journal) }()
		<-called
		s.wantNoState()
		answer()
		s.wantState()
		s.ok(<-synced)
	})
	for name, first := range map[string]bool{"follower, first snapshot": true, "follower": false} {
		t.Run(name, func(t *testing.T) {
			s := newStateTest(t, first)
			s.acknowledge()
			s.change()
			s.ok(journal.SyncAll(t.Context(), s.Journal))
			s.wantNoState()
			s.acknowledge()
			s.wantState()
		})
	}
}

// TestLeavingIsDurable: a sink reads that an object has left the selection once that is on the disk. After
// a power loss its Namespace may match again, and an object that has not left in the log enters nowhere.
func TestLeavingIsDurable(t *testing.T) {
	s := newStateTest(t, false)
	answer, _ := s.holdSyncs()
	s.add("left a")
	s.poll()
	if len(s.got) > 0 {
		t.Fatalf("before the sync: %q", s.got)
	}
	answer()
	entries, err := s.cursor.Read(t.Context(), 1)
	s.ok(err)
	if got := show(entries); !slices.Equal(got, []string{"left a2"}) {
		t.Errorf("after the sync: %q", got)
	}
}

// TestNewSinkTakesNothing: the first snapshot of a sink has what is readable wait for the disk again. A
// sink that is about to read it gets it later, and no gap.
func TestNewSinkTakesNothing(t *testing.T) {
	s := newStateTest(t, true)
	s.change()
	other := s.logTest.cursor("other", journal.FromNow)
	answer, _ := s.holdSyncs()
	s.add("modified a")
	to := journal.Readable(s.Journal)
	s.wantNoState()
	entries, err := journal.UpTo(other, to)
	if s.ok(err); len(entries) > 0 {
		t.Errorf("before the sync: %q", show(entries))
	}
	answer()
	s.want(other, "modified a3")
}

// stateTest is a journal with an object, and a sink that gets a snapshot.
type stateTest struct {
	*logTest

	cursor *journal.Cursor
	first  bool // the snapshot is the first one of the sink
	got    []string
}

func newStateTest(t *testing.T, first bool) *stateTest {
	t.Helper()
	s := &stateTest{logTest: newLogTest(t), first: first}
	s.add("added a")
	if !first {
		s.cursor = s.logTest.cursor("sink", journal.FromNow)
	}
	return s
}

// holdSyncs keeps syncs from returning until answer is called. Called gets a value for each.
func (s *stateTest) holdSyncs() (answer func(), called <-chan struct{}) {
	answers, calls := make(chan struct{}), make(chan struct{}, 100)
	s.disk.Set(disktest.On("fsync", func() error {
		calls <- struct{}{}
		<-answers
		return nil
	}))
	answer = sync.OnceFunc(func() { close(answers) })
	s.t.Cleanup(answer)
	return answer, calls
}

// acknowledge has a follower say that it has everything.
func (s *stateTest) acknowledge() {
	s.t.Helper()
	files, err := s.Shipping().Files()
	s.ok(err)
	s.Shipping().Acknowledge("follower", files.Active.Name, files.Active.Size)
}

// change changes the object, and begins the snapshot.
func (s *stateTest) change() {
	s.t.Helper()
	s.add("modified a")
	if s.first {
		s.cursor = s.logTest.cursor("sink", journal.FromSnapshot)
	} else {
		s.poll()
		requested := make(chan struct{})
		go func() {
			defer close(requested)
			_ = s.cursor.Request(s.t.Context(), again(7, "core/configmaps")) // waits for the disk
		}()
		s.t.Cleanup(func() { <-requested })
		waitFor(s.t, "the request is there", func() bool { return len(s.cursor.Requests()) == 1 })
	}
}

// poll reads what is readable.
func (s *stateTest) poll() {
	s.t.Helper()
	for more := true; more; {
		entries, err := journal.Poll(s.t.Context(), s.cursor, 100)
		s.ok(err)
		s.got, more = append(s.got, show(entries)...), len(entries) > 0
	}
}

// entries is what the sink gets: before the state is durable, and in all.
func (s *stateTest) entries() (before, all []string) {
	if s.first {
		return nil, []string{"snapshot a2"}
	}
	all = []string{"modified a2", "- begin run 7", "- snapshot a2 run 7", "- synced run 7"}
	return all[:2], all
}

func (s *stateTest) wantNoState() {
	s.t.Helper()
	s.poll()
	if want, _ := s.entries(); !slices.Equal(s.got, want) {
		s.t.Errorf("before the state is durable: %q, want %q", s.got, want)
	}
}

func (s *stateTest) wantState() {
	s.t.Helper()
	_, want := s.entries()
	for len(s.got) < len(want) {
		entries, err := s.cursor.Read(s.t.Context(), 1)
		s.ok(err)
		s.got = append(s.got, show(entries)...)
	}
	if diff := cmp.Diff(want, s.got); diff != "" {
		s.t.Errorf("entries (-want +got):\n%s", diff)
	}
}

// TestACopyThatWasOpenedIsNoCopy: a power loss after a takeover does not make a copy of the log again, which loses what
// the new leader has appended, or declares a loss.
func TestACopyThatWasOpenedIsNoCopy(t *testing.T) {
	for seed := range uint64(8) {
		for _, is := range []string{"partial", "whole"} {
			d := disktest.New(seed)
			s := logTest{t: t, disk: d, config: journal.Config{Cluster: "test", Logger: slog.New(slog.DiscardHandler)}, last: map[string]event.Event{}}
			s.open()
			s.ok(s.Close())
			s.ok(disk.Write(d, "copy", fmt.Appendf(nil, `{"is":%q,"boot":"boot","term":1}`, is), true))
			s.ok(d.Sync())
			s.open()
			s.add("added a")
			s.ok(journal.SyncAll(t.Context(), s.Journal))
			d.PowerLoss()
			journal.Kill(s.Journal)
			d.Restart()
			var err error
			s.Journal, err = journal.OpenOn(d, s.config, "boot 2", 512)
			s.ok(err)
			if left, err := journal.Events(s.Journal); err != nil || len(left) != 1 || s.Stats().Lost > 0 {
				t.Errorf("%s copy, seed %d: %d events are left, %v; losses: %d", is, seed, len(left), err, s.Stats().Lost)
			}
			journal.Kill(s.Journal)
		}
	}
}

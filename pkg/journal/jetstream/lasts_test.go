package jetstream_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	js "github.com/nats-io/nats.go/jetstream"

	"github.com/informd/informd/pkg/event"
	"github.com/informd/informd/pkg/journal"
	"github.com/informd/informd/pkg/journal/jetstream"
)

// snapshotBegun is a cursor at the beginning of the states of objects that were appended
// before: of a snapshot, or of one that is repeated.
func snapshotBegun(t *testing.T, j journal.Journal, repeated bool, begin func()) journal.Cursor {
	t.Helper()
	if !repeated {
		begin()
		return mustOpen(t, j, "new", journal.FromSnapshot)
	}
	c := mustOpen(t, j, "bus", journal.FromNow)
	begin()
	last := j.Stats().LastSeq
	for passed := uint64(0); passed < last; {
		entries := read(t, c, 1)
		passed = entries[0].Seq
		mustCommit(t, c, passed)
	}
	mustResnapshot(t, c, again(7, "core/configmaps"))
	return c
}

// readStates reads until every object was told of, for some seconds at most, and
// complains about those that were not. Told has the revisions that came, by name.
func readStates(t *testing.T, c journal.Cursor, told map[string][]uint64, objects []*object) {
	t.Helper()
	reading, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	missing := func() (names []string) {
		for _, o := range objects {
			if told[o.name] == nil {
				names = append(names, o.name)
			}
		}
		return names
	}
	for len(missing()) > 0 {
		entries, err := c.Read(reading, 100)
		if err != nil {
			t.Errorf("%v are missing: %v", missing(), err)
			return
		}
		noteStates(told, entries)
	}
}

func noteStates(told map[string][]uint64, entries []journal.Entry) {
	for _, e := range entries {
		told[e.Event.Name] = append(told[e.Event.Name], e.Event.ResourceVersion)
	}
}

// leaveBehind appends the beginning of so many objects, o0 and so on, to a journal where a
// sink called bus has read nothing, and closes it.
func leaveBehind(t *testing.T, h *host, n int) {
	t.Helper()
	j := h.open()
	mustOpen(t, j, "bus", journal.FromNow)
	var now clock
	for i := range n {
		mustAppend(t, j, (&object{name: fmt.Sprint("o", i)}).event(&now, event.Added))
	}
	mustClose(t, j)
}

// eachKind runs a test with a snapshot, and with one that is repeated.
func eachKind(t *testing.T, do func(t *testing.T, repeated bool)) {
	for _, repeated := range []bool{false, true} {
		t.Run(fmt.Sprint(repeated), func(t *testing.T) { do(t, repeated) })
	}
}

// TestSnapshotOfWhatIsTrimmed: what the history limit removes while the states are
// read, because the objects change, ends nothing: all others come.
func TestSnapshotOfWhatIsTrimmed(t *testing.T) {
	eachKind(t, func(t *testing.T, repeated bool) {
		j := newHost(t).open(history(2))
		var now clock
		objects := make([]*object, 100)
		c := snapshotBegun(t, j, repeated, func() {
			for i := range objects {
				objects[i] = &object{name: fmt.Sprint("o", i)}
				mustAppend(t, j, objects[i].event(&now, event.Added))
			}
		})
		told := make(map[string][]uint64)
		noteStates(told, read(t, c, 5))
		// Those that the server comes to next, some of them at the beginning of a pull.
		for _, o := range objects[32:70] {
			mustAppend(t, j, o.event(&now, event.Modified), o.event(&now, event.Modified))
		}
		readStates(t, c, told, objects)
	})
}

// TestSnapshotAmidPurges: the janitor removes the history of objects that are gone while
// the states are read. All of that counts as pending no more, though the last of each
// was all that was. Each object that is there comes once, as it is, and no other.
func TestSnapshotAmidPurges(t *testing.T) {
	eachKind(t, func(t *testing.T, repeated bool) {
		h := newHost(t)
		j := h.open()
		var now clock
		var objects []*object
		var subjects []string
		c := snapshotBegun(t, j, repeated, func() {
			for i := range 100 {
				o := &object{name: fmt.Sprint("o", i)}
				objects = append(objects, o)
				mustAppend(t, j, o.event(&now, event.Added))
				if i < 40 || i >= 50 {
					continue
				}
				for n := range 10 {
					gone := &object{name: fmt.Sprint("gone", i, "-", n)}
					mustAppend(t, j, gone.event(&now, event.Added))
					last := gone.event(&now, event.Deleted)
					mustAppend(t, j, last)
					subjects = append(subjects, last.NATSSubject("k8s"))
				}
			}
			for i, o := range objects[60:] {
				mustAppend(t, j, o.event(&now, event.Modified), o.event(&now, event.Modified))
				ended := &object{name: fmt.Sprint("ended", i)}
				mustAppend(t, j, ended.event(&now, event.Added), ended.event(&now, event.Deleted))
			}
		})
		told := make(map[string][]uint64)
		noteStates(told, read(t, c, 5))
		stream, err := h.shared().Stream(t.Context(), "INFORMD")
		if err != nil {
			t.Fatal(err)
		}
		for _, subject := range subjects {
			if err := stream.Purge(t.Context(), js.WithPurgeSubject(subject), js.WithPurgeKeep(1)); err != nil {
				t.Fatal(err)
			}
		}
		readStates(t, c, told, objects)
		want := make(map[string][]uint64)
		for _, o := range objects {
			want[o.name] = []uint64{o.prev}
		}
		delete(told, "") // of records
		if diff := cmp.Diff(want, told); diff != "" {
			t.Errorf("states (-want +got):\n%s", diff)
		}
	})
}

// TestSnapshotWhereNothingIsPending: the server's count of what is pending is too low at
// times, and a pull gets nothing then. Here each second one asks a consumer that has
// nothing.
func TestSnapshotWhereNothingIsPending(t *testing.T) {
	eachKind(t, func(t *testing.T, repeated bool) {
		h := newHost(t)
		j, pulls := openDiverting(t, h)
		var now clock
		objects := make([]*object, 100)
		c := snapshotBegun(t, j, repeated, func() {
			for i := range objects {
				objects[i] = &object{name: fmt.Sprint("o", i)}
				mustAppend(t, j, objects[i].event(&now, event.Added))
			}
		})
		readStates(t, c, make(map[string][]uint64), objects)
		if pulls.Load() < 4 {
			t.Errorf("there were %d pulls", pulls.Load())
		}
	})
}

// TestCatchupWhereNothingIsPending is the same for a sink that comes back, and then goes
// back: nothing of what is there counts as removed.
func TestCatchupWhereNothingIsPending(t *testing.T) {
	h := newHost(t)
	const n = 600 // several pulls
	leaveBehind(t, h, n)
	j, pulls := openDiverting(t, h)
	c := mustOpen(t, j, "bus", journal.FromNow)
	for i, e := range read(t, c, n) {
		if e.Seq != uint64(i+1) {
			t.Fatalf("entry %d is %s", i, show([]journal.Entry{e}))
		}
	}
	if pulls.Load() == 0 {
		t.Error("no pull was diverted")
	}
	mustCommit(t, c, n)
	if repeated, err := rewind(t, c, time.Unix(0, 0)); repeated != n || err != nil {
		t.Errorf("%d come again: %v", repeated, err)
	}
	if got := show(read(t, c, 1)); !strings.HasPrefix(got, "1 added ") {
		t.Errorf("then came %s", got)
	}
}

// TestWhatCannotBeRead: the server says that there is nothing where it cannot read what it
// has. A sink waits until that is mended.
func TestWhatCannotBeRead(t *testing.T) {
	eachKind(t, func(t *testing.T, behind bool) {
		h := newHost(t)
		const n = 600 // several pulls
		leaveBehind(t, h, n)
		h.restartOn(h.dir) // with hardly anything in its caches
		j := h.open()
		c := mustOpen(t, j, "bus", journal.FromNow)
		if !behind {
			c = mustOpen(t, j, "new", journal.FromSnapshot)
		}
		blocks, err := filepath.Glob(filepath.Join(h.dir, "jetstream", "*", "streams", "INFORMD", "msgs", "*.blk"))
		if err != nil || len(blocks) != 1 {
			t.Fatalf("the stream is in %v (%v)", blocks, err)
		}
		// A restart loads the last message, and the server (2.15.2) then keeps the block by a weak
		// pointer. Without a collection it reads from memory. A second one is for a block that
		// the server still uses during the first.
		runtime.GC()
		runtime.GC()
		away := blocks[0] + ".away"
		if err := errors.Join(os.Rename(blocks[0], away), os.Mkdir(blocks[0], 0o700)); err != nil {
			t.Fatal(err)
		}
		reading, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if entries, err := c.Read(reading, 1); err == nil {
			t.Errorf("there came %s", show(entries))
		}
		if err := errors.Join(os.Remove(blocks[0]), os.Rename(away, blocks[0])); err != nil {
			t.Fatal(err)
		}
		for i, e := range read(t, c, n) {
			if e.Event.Name != fmt.Sprint("o", i) {
				t.Fatalf("entry %d is %s", i, show([]journal.Entry{e}))
			}
		}
	})
}

// openDiverting opens a journal each second pull of which gets nothing, and counts them.
func openDiverting(t *testing.T, h *host) (*jetstream.Journal, *atomic.Uint64) {
	t.Helper()
	var pulls atomic.Uint64
	h.filter = func(conn net.Conn) net.Conn { return &divertingConn{Conn: conn, pulls: &pulls} }
	j := h.open()
	h.filter = nil
	stream, err := h.shared().Stream(t.Context(), "INFORMD")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := stream.CreateConsumer(t.Context(), js.ConsumerConfig{Name: emptyConsumer, FilterSubject: "k8s.nothing"}); err != nil {
		t.Fatal(err)
	}
	return j, &pulls
}

// emptyConsumer is as long as the names that the client library makes.
const emptyConsumer = "nothing1"

// divertingConn makes each second pull that does not wait one of another consumer.
type divertingConn struct {
	net.Conn
	pulls *atomic.Uint64
}

func (c *divertingConn) Write(p []byte) (int, error) {
	const request = "$JS.API.CONSUMER.MSG.NEXT.INFORMD."
	at := bytes.Index(p, []byte(request))
	if at >= 0 && bytes.Contains(p, []byte(`"no_wait":true`)) && c.pulls.Add(1)%2 == 1 {
		changed := bytes.Clone(p)
		name, _, _ := strings.Cut(string(p[at+len(request):]), " ")
		if len(name) != len(emptyConsumer) {
			panic("the client library names its consumers otherwise: " + name)
		}
		copy(changed[at+len(request):], emptyConsumer)
		return c.Conn.Write(changed)
	}
	return c.Conn.Write(p)
}

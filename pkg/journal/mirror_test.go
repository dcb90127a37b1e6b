package journal_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/informd/informd/internal/form"
	"github.com/informd/informd/pkg/event"
	"github.com/informd/informd/pkg/journal"
)

// link is the way from a follower to a leader. Calls fail now and then.
type link struct {
	leader *journal.Journal
	name   string

	mu     sync.Mutex
	random *rand.Rand
	faulty bool
}

var errCut = errors.New("the connection is cut")

func (l *link) fails() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.faulty && l.random.IntN(20) == 0
}

func (l *link) Files(context.Context) (journal.Files, error) {
	if l.fails() {
		return journal.Files{}, errCut
	}
	return l.leader.Shipping().Files()
}

func (l *link) Chunk(ctx context.Context, name string, offset int64, ack bool) (journal.Chunk, error) {
	if ack && !l.fails() {
		l.leader.Shipping().Acknowledge(l.name, name, offset)
	}
	if l.fails() {
		return journal.Chunk{}, errCut
	}
	c, err := l.leader.Shipping().Chunk(ctx, name, offset, 20*time.Millisecond)
	if l.fails() {
		return journal.Chunk{}, errCut // the answer is lost
	}
	return c, err
}

// pair is a leader, its follower, and a sink of the leader.
type pair struct {
	t      *testing.T
	random *rand.Rand
	dirs   [2]string
	lead   int // index of the leader's directory
	term   int64
	rv     uint64
	exists map[string]event.Event // by name, as last appended
	serial int
}

func (p *pair) config(dir string) journal.Config {
	return journal.WithSegment(journal.Config{Dir: dir, Cluster: "test", Logger: slog.New(slog.DiscardHandler), HistoryPerObject: 1}, 2048)
}

func (p *pair) ok(err error) {
	p.t.Helper()
	must(p.t, err)
}

// next is a random event: of a new object, of one that exists, or of one that goes.
func (p *pair) next() event.Event {
	p.rv++
	e := event.Event{
		Cluster: "test", Target: "core/configmaps", Version: "v1", Resource: "configmaps", Kind: "ConfigMap", Namespace: "a",
		ResourceVersion: p.rv, Time: time.Now(), Data: fmt.Appendf(nil, `{"object":{"rv":%d}}`, p.rv),
	}
	for name, last := range p.exists {
		if p.random.IntN(3) == 0 {
			break
		}
		e.Op, e.Name, e.UID, e.Ordinal = event.Modified, name, last.UID, last.Ordinal+1
		if p.random.IntN(4) == 0 {
			e.Op = event.Deleted
			delete(p.exists, name)
		} else {
			p.exists[name] = e
		}
		e.ID = form.ObjectID(e.UID, p.rv, 0)
		return e
	}
	p.serial++
	e.Op, e.Name, e.UID, e.Ordinal = event.Added, fmt.Sprint("object-", p.serial), fmt.Sprint("uid-", p.serial), 1
	e.ID = form.ObjectID(e.UID, p.rv, 0)
	p.exists[e.Name] = e
	return e
}

// sinkOf reads a journal until it fails, and returns which objects it has read that were new since the start
// and are not gone. The log keeps nothing for long of one that is gone; and of one from before, a copy that
// declared a loss may have the first events without the last, so that it is unknown whether it exists.
func sinkOf(t *testing.T, j *journal.Journal) (rows func() map[string]uint64) {
	t.Helper()
	c, err := j.Open("sink", journal.FromSnapshot)
	must(t, err)
	before := j.Stats().LastSeq
	var mu sync.Mutex
	seen, ended := map[string]uint64{}, make(chan struct{})
	go func() {
		defer close(ended)
		for {
			entries, err := c.Read(t.Context(), 16)
			if err != nil {
				return
			}
			mu.Lock()
			for _, e := range entries {
				switch {
				case e.Seq <= before: // 0 in a snapshot
				case e.Event.Op == event.Added:
					seen[e.Event.Name] = e.Event.ResourceVersion
				case e.Event.Op.Ends():
					delete(seen, e.Event.Name)
				}
			}
			mu.Unlock()
			if last := entries[len(entries)-1]; last.Seq > 0 {
				_ = c.Commit(last.Seq)
			}
		}
	}()
	return func() map[string]uint64 {
		<-ended
		mu.Lock()
		defer mu.Unlock()
		return seen
	}
}

// lead runs a leader with a follower for a while, kills it, and has the follower open its copy.
func (p *pair) run() {
	leader, err := journal.Open(p.config(p.dirs[p.lead]))
	p.ok(err)
	rows := sinkOf(p.t, leader)
	mirror, err := journal.OpenMirror(p.dirs[1-p.lead], slog.New(slog.DiscardHandler))
	p.ok(err)
	p.term++
	l := &link{leader: leader, name: "follower", random: rand.New(rand.NewPCG(p.random.Uint64(), 0)), faulty: p.random.IntN(2) == 0}
	ctx, stop := context.WithCancel(p.t.Context())
	followed := make(chan struct{})
	go func() {
		defer close(followed)
		for ctx.Err() == nil {
			_ = mirror.Follow(ctx, l, p.term, func() {})
		}
	}()
	listed := false // what a Lease says
	for range 20 + p.random.IntN(60) {
		batch := make([]event.Event, 0, 8)
		for range 1 + p.random.IntN(8) {
			batch = append(batch, p.next())
		}
		p.ok(leader.Append(p.t.Context(), batch))
		if p.random.IntN(10) == 0 {
			p.ok(journal.Clear(p.t.Context(), leader, false))
		}
		now := leader.Shipping().Following(50*time.Millisecond, time.Minute)
		if len(now.Late) > 0 {
			listed = false
			leader.Shipping().Release("follower")
		} else {
			listed = listed || len(now.InSync) > 0
		}
		if p.random.IntN(4) == 0 {
			<-time.After(time.Duration(p.random.IntN(5)) * time.Millisecond)
		}
	}
	if p.random.IntN(2) == 0 { // a hand-over
		settling, cancel := context.WithTimeout(p.t.Context(), 100*time.Millisecond)
		_ = leader.Shipping().Settle(settling)
		cancel()
	}
	p.ok(journal.Crash(leader))
	seen := rows()
	stop()
	<-followed
	trusted := listed && mirror.Whole()
	if !trusted {
		p.ok(mirror.Distrust())
	}
	p.ok(mirror.Close())
	p.takeOver(trusted, seen)
}

// takeOver opens the copy and compares.
func (p *pair) takeOver(trusted bool, seen map[string]uint64) {
	p.lead = 1 - p.lead
	j, err := journal.Open(p.config(p.dirs[p.lead]))
	p.ok(err)
	defer func() { p.ok(j.Close()) }()
	last := map[string]event.Event{}
	mark, err := j.Restore(p.t.Context(), "core/configmaps", func(e event.Event) { last[e.Name] = e })
	p.ok(err)
	if mark.Void == trusted {
		p.t.Fatalf("the copy is trusted: %v, checkpoints are void: %v", trusted, mark.Void)
	}
	if !trusted {
		// A comparison with a list follows, which is not of interest here.
		p.exists = map[string]event.Event{}
		for name, e := range last {
			if !e.Op.Ends() {
				p.exists[name] = e
			}
		}
		p.ok(j.Mark(p.t.Context(), "core/configmaps", []byte("compared")))
		return
	}
	for name, rv := range seen {
		if e, ok := last[name]; !ok || e.ResourceVersion < rv {
			p.t.Fatalf("a sink has %s of revision %d, and the copy has %d (%v)", name, rv, e.ResourceVersion, ok)
		}
	}
	// What was on its way comes again from the watch.
	var again []event.Event
	for name, e := range p.exists {
		if last[name].ResourceVersion < e.ResourceVersion {
			again = append(again, e)
		}
	}
	for name, e := range last {
		if _, exists := p.exists[name]; !exists && !e.Op.Ends() {
			e.Op, e.ID, e.Ordinal, e.ResourceVersion, e.Data = event.Deleted, form.DeletedID(e.UID, 0), e.Ordinal+1, p.rv, []byte(`{}`)
			again = append(again, e)
		}
	}
	p.ok(j.Append(p.t.Context(), again))
	p.ok(j.Mark(p.t.Context(), "core/configmaps", []byte("mark")))
}

// TestPair: leaders are killed while a follower copies their log over a bad connection, and each becomes the
// follower of the next one. A copy that the leader counts on has every new object that a sink has got, and
// any other declares that it may lack some.
func TestPair(t *testing.T) {
	for seed := range uint64(pairSeeds) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			p := &pair{t: t, random: rand.New(rand.NewPCG(seed, 0)), dirs: [2]string{t.TempDir(), t.TempDir()}, exists: map[string]event.Event{}}
			for range 6 {
				p.run()
			}
		})
	}
}

// gone is a leader that does not answer.
type gone struct{ journal.Leader }

func (gone) Files(context.Context) (journal.Files, error) { return journal.Files{}, errCut }

// TestLeaderIsGone: a follower that was restarted and does not reach its leader any more still has a whole copy.
func TestLeaderIsGone(t *testing.T) {
	p := &pair{t: t, dirs: [2]string{t.TempDir(), t.TempDir()}}
	leader, err := journal.Open(p.config(p.dirs[0]))
	p.ok(err)
	defer func() { p.ok(leader.Close()) }()
	for _, whole := range []bool{
		p.follow(&link{leader: leader, name: "follower"}, 1, context.Canceled), p.follow(gone{}, 1, errCut),
	} {
		if !whole {
			t.Error("the copy is not whole")
		}
	}
}

// follow copies the first directory's journal to the second one, until the copy is in sync or an error, and reports
// whether the copy is whole.
func (p *pair) follow(from journal.Leader, term int64, wantErr error) (whole bool) {
	p.t.Helper()
	mirror, err := journal.OpenMirror(p.dirs[1], slog.New(slog.DiscardHandler))
	p.ok(err)
	ctx, stop := context.WithCancel(p.t.Context())
	if err := mirror.Follow(ctx, from, term, stop); !errors.Is(err, wantErr) {
		p.t.Fatalf("error %v, want %v", err, wantErr)
	}
	whole = mirror.Whole()
	p.ok(mirror.Close())
	return whole
}

// noChunks is a leader that ends behind its list of files.
type noChunks struct{ journal.Leader }

func (n noChunks) Chunk(ctx context.Context, name string, offset int64, ack bool) (journal.Chunk, error) {
	if ack {
		return n.Leader.Chunk(ctx, name, offset, ack)
	}
	return journal.Chunk{}, errCut
}

// TestInterruptedJoin: a follower that was restarted and copies what compaction has replaced meanwhile loses its leader.
// What it had before stays.
func TestInterruptedJoin(t *testing.T) {
	p := &pair{t: t, random: rand.New(rand.NewPCG(1, 0)), dirs: [2]string{t.TempDir(), t.TempDir()}, exists: map[string]event.Event{}}
	leader, err := journal.Open(p.config(p.dirs[0]))
	p.ok(err)
	defer func() { p.ok(leader.Close()) }()
	c, err := leader.Open("bus", journal.FromNow)
	p.ok(err)
	p.ok(leader.DeadLetters("bus").Put(t.Context(), []byte("{}")))
	l := &link{leader: leader, name: "follower"}
	p.follow(l, 1, context.Canceled)
	for range 100 {
		p.ok(leader.Append(t.Context(), []event.Event{p.next()}))
	}
	p.ok(journal.SyncAll(t.Context(), leader))
	p.follow(l, 1, context.Canceled)
	before := leader.Stats().Bytes
	p.ok(c.Commit(leader.Stats().LastSeq))
	p.ok(journal.Save(leader))
	p.ok(journal.Clear(t.Context(), leader, false))
	if after := leader.Stats().Bytes; after >= before {
		t.Fatalf("compaction leaves %d of %d bytes", after, before)
	}
	p.follow(noChunks{l}, 1, errCut)
	j, err := journal.Open(p.config(p.dirs[1]))
	p.ok(err)
	defer func() { p.ok(j.Close()) }()
	if n := j.LetterCounts()["bus"]; n != 1 {
		t.Errorf("%d dead letters", n)
	}
}

// TestDivergedCopy: segments that a former leader has written have the names and sizes of the leader's, and
// other records. A follower replaces them, and keeps those that are the same.
func TestDivergedCopy(t *testing.T) {
	p := &pair{t: t, dirs: [2]string{t.TempDir(), t.TempDir()}}
	appends := func(j *journal.Journal, name string) {
		for rv := range uint64(100) {
			e := event.Event{
				Op: event.Added, Cluster: "test", Target: "core/configmaps", Version: "v1", Resource: "configmaps", Namespace: "a",
				Name: fmt.Sprint(name, rv), UID: fmt.Sprint(name, rv), ResourceVersion: rv + 1, Ordinal: 1, Data: []byte(`{}`),
			}
			e.ID = form.ObjectID(e.UID, e.ResourceVersion, 0)
			p.ok(j.Append(t.Context(), []event.Event{e}))
		}
	}
	leader, err := journal.Open(p.config(p.dirs[0]))
	p.ok(err)
	appends(leader, "common")
	p.ok(leader.Close())
	p.ok(os.CopyFS(p.dirs[1], os.DirFS(p.dirs[0])))
	before := contents(t, p.dirs[1])
	former, err := journal.Open(p.config(p.dirs[1]))
	p.ok(err)
	appends(former, "former")
	p.ok(former.Close())
	if leader, err = journal.Open(p.config(p.dirs[0])); err != nil {
		t.Fatal(err)
	}
	defer func() { p.ok(leader.Close()) }()
	appends(leader, "leader")
	p.ok(journal.SyncAll(t.Context(), leader))

	copied := map[string]bool{}
	p.follow(noting{&link{leader: leader, name: "follower"}, copied}, 2, context.Canceled)
	files, err := leader.Shipping().Files()
	p.ok(err)
	mine, theirs := contents(t, p.dirs[1]), contents(t, p.dirs[0])
	for _, f := range files.Sealed {
		if mine[f.Name] != theirs[f.Name] {
			t.Errorf("%s differs", f.Name)
		}
		if before[f.Name] == theirs[f.Name] && copied[f.Name] {
			t.Errorf("%s was copied again", f.Name)
		}
	}
}

// noting notes which files a follower asks for.
type noting struct {
	*link

	asked map[string]bool
}

func (n noting) Chunk(ctx context.Context, name string, offset int64, ack bool) (journal.Chunk, error) {
	if !ack {
		n.asked[name] = true
	}
	return n.link.Chunk(ctx, name, offset, ack)
}

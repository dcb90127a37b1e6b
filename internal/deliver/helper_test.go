package deliver_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"

	"github.com/informd/informd/internal/deliver"
	"github.com/informd/informd/pkg/event"
	"github.com/informd/informd/pkg/journal"
	"github.com/informd/informd/pkg/sink"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// must ends a test that an error leaves nothing to check in.
func must(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
}

// fakeSink is a sink made of functions. Without write it takes everything.
type fakeSink struct {
	write func(ctx context.Context, batch []event.Event) (int, error)
	close func(ctx context.Context) error

	mu     sync.Mutex
	got    []event.Event // what write acknowledged, in order
	closed int
}

func (s *fakeSink) Write(ctx context.Context, batch []event.Event) (int, error) {
	n, err := len(batch), error(nil)
	if s.write != nil {
		n, err = s.write(ctx, batch)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if n > 0 && n <= len(batch) {
		s.got = append(s.got, batch[:n]...)
	}
	return n, err
}

func (s *fakeSink) Close(ctx context.Context) error {
	s.mu.Lock()
	s.closed++
	s.mu.Unlock()
	if s.close != nil {
		return s.close(ctx)
	}
	return nil
}

// answer is what a sink says about a batch: how many of its events it has taken, and why no more.
type answer struct {
	taken int
	err   error
}

// inTurn is a sink with these answers, which takes everything then.
func inTurn(answers ...answer) *fakeSink {
	return &fakeSink{write: func(_ context.Context, batch []event.Event) (int, error) {
		if len(answers) == 0 {
			return len(batch), nil
		}
		a := answers[0]
		answers = answers[1:]
		return a.taken, a.err
	}}
}

// whenUp is a sink that is down until it is up.
func whenUp(up *atomic.Bool) *fakeSink {
	return &fakeSink{write: func(_ context.Context, batch []event.Event) (int, error) {
		if up.Load() {
			return len(batch), nil
		}
		return 0, errDown
	}}
}

func (s *fakeSink) open(context.Context) (sink.Sink, error) { return s, nil }

func (s *fakeSink) ids() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return ids(s.got)
}

func (s *fakeSink) timesClosed() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.closed
}

func ids(events []event.Event) []string {
	list := make([]string, len(events))
	for i := range events {
		list[i] = events[i].ID
	}
	return list
}

// events makes n modified events with the ids from to from+n-1, spread over
// several objects.
func events(from, n int) []event.Event {
	list := make([]event.Event, n)
	for i := range list {
		object := (from + i) % 17
		list[i] = event.Event{
			ID: fmt.Sprint(from + i), Op: event.Modified, Cluster: "test", Target: "core/pods",
			Version: "v1", Resource: "pods", Kind: "Pod", Namespace: "default",
			Name: fmt.Sprint("pod", object), UID: fmt.Sprint("uid", object), ResourceVersion: uint64(from + i),
			Data: []byte(`{"object":{}}`),
		}
	}
	return list
}

func numbers(from, n int) []string { return ids(events(from, n)) }

// logs is where a test's log lines go.
type logs struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *logs) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

// count returns how many lines contain text.
func (l *logs) count(text string) (n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for line := range strings.Lines(l.b.String()) {
		if strings.Contains(line, text) {
			n++
		}
	}
	return n
}

// opener is a journal, or what a test plays in its place.
type opener interface {
	Append(ctx context.Context, events []event.Event) error
	Open(name string, start journal.Start) (deliver.Cursor, error)
	Stats() journal.Stats
}

type realJournal struct{ *journal.Journal }

func (j realJournal) Open(name string, start journal.Start) (deliver.Cursor, error) {
	return j.Journal.Open(name, start)
}

// altered is a journal whose cursors do something else where a function is set.
type altered struct {
	opener

	read   func([]journal.Entry) []journal.Entry // what Read returns in place of these; none has it read on
	commit func(seq uint64)                      // before a commit
	rewind func(since time.Time) (uint64, error)
}

func (a altered) Open(name string, start journal.Start) (deliver.Cursor, error) {
	c, err := a.opener.Open(name, start)
	return alteredCursor{c, a}, err
}

type alteredCursor struct {
	deliver.Cursor
	by altered
}

func (c alteredCursor) Read(ctx context.Context, limit int) ([]journal.Entry, error) {
	for {
		entries, err := c.Cursor.Read(ctx, limit)
		if c.by.read != nil {
			entries = c.by.read(entries)
		}
		if err != nil || len(entries) > 0 {
			return entries, err
		}
	}
}

func (c alteredCursor) Commit(seq uint64) error {
	if c.by.commit != nil {
		c.by.commit(seq)
	}
	return c.Cursor.Commit(seq)
}

func (c alteredCursor) Rewind(ctx context.Context, since time.Time) (uint64, error) {
	if c.by.rewind != nil {
		return c.by.rewind(since)
	}
	return c.Cursor.Rewind(ctx, since)
}

func (c alteredCursor) Rewindable() error {
	if c.by.rewind != nil {
		return nil
	}
	return c.Cursor.Rewindable()
}

// newRunner makes the runner of a sink with a cursor of a journal.
func newRunner(tb testing.TB, j opener, o deliver.Options) *deliver.Runner {
	tb.Helper()
	c, err := j.Open(o.Name, journal.FromSnapshot)
	must(tb, err)
	r, err := deliver.New(c, func() uint64 { return j.Stats().LastSeq }, o)
	must(tb, err)
	return r
}

// emptyJournal opens an empty journal in a directory of the test, without syncs, until the test ends. Change
// may adapt its config. In a bubble of synctest, t is that of the bubble.
func emptyJournal(t testing.TB, change ...func(*journal.Config)) *journal.Journal {
	t.Helper()
	c := journal.Config{Cluster: "test", Logger: slog.New(slog.DiscardHandler)}
	for _, f := range change {
		f(&c)
	}
	j, err := journal.OpenTemporary(t.TempDir(), c)
	must(t, err)
	t.Cleanup(func() { _ = j.Close() }) // the test may have closed it
	return j
}

// maxBytes has emptyJournal set the limit of the journal.
func maxBytes(n int64) func(*journal.Config) {
	return func(c *journal.Config) { c.MaxBytes = n }
}

// newJournal opens an empty journal. A sink "out" gets all events that are appended to it, also before
// its runner opens its cursor; other new sinks begin with the states of the objects.
func newJournal(t *testing.T, change ...func(*journal.Config)) realJournal {
	t.Helper()
	j := realJournal{emptyJournal(t, change...)}
	out, err := j.Open("out", journal.FromSnapshot)
	must(t, err)
	must(t, out.Close())
	return j
}

// rig is one runner with what it needs.
type rig struct {
	*deliver.Runner
	registry *prometheus.Registry
	logs     *logs
	letters  *deliver.DeadLetters
	result   chan error
}

// start makes a runner for s and runs it until ctx ends. Change may adapt the
// options.
func start(t *testing.T, j opener, s *fakeSink, change func(*deliver.Options)) *rig {
	t.Helper()
	g := newRig(t, j, s, change)
	g.run(t.Context())
	return g
}

func newRig(t *testing.T, j opener, s *fakeSink, change func(*deliver.Options)) *rig {
	t.Helper()
	g := &rig{registry: prometheus.NewRegistry(), logs: &logs{}, result: make(chan error, 1)}
	o := deliver.Options{
		Name: "out", Setup: setup(t, s),
		DeadLetters: deliver.NewDeadLetters("out", emptyJournal(t).DeadLetters("out")),
		Logger:      slog.New(slog.NewTextHandler(g.logs, &slog.HandlerOptions{Level: slog.LevelDebug})),
		Registerer:  g.registry,
	}
	if change != nil {
		change(&o)
	}
	g.letters = o.DeadLetters
	g.Runner = newRunner(t, j, o)
	return g
}

func setup(t *testing.T, s *fakeSink) deliver.Setup {
	t.Helper()
	return deliver.Setup{Type: "fake", Lanes: 1, Open: s.open, Route: everything(t)}
}

func (g *rig) run(ctx context.Context) { go func() { g.result <- g.Run(ctx) }() }

// drain drains within the given time and returns what was left.
func (g *rig) drain(t *testing.T, within time.Duration) uint64 {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), within)
	defer cancel()
	left, err := g.Drain(ctx)
	if err != nil {
		t.Errorf("Drain: %v", err)
	}
	must(t, <-g.result)
	return left
}

func everything(t *testing.T) *deliver.Route { return route(t, true) }

func route(t *testing.T, snapshot bool, only ...deliver.Match) *deliver.Route {
	t.Helper()
	return deliver.NewRoute(only, snapshot)
}

func mustAppend(t *testing.T, j opener, list []event.Event) {
	t.Helper()
	must(t, j.Append(t.Context(), list))
}

// waitFor waits for a condition.
func waitFor(t *testing.T, what string, is func() bool) {
	t.Helper()
	deadline := time.After(time.Minute)
	for !is() {
		select {
		case <-deadline:
			t.Fatalf("%s: not within a minute", what)
		case <-time.After(time.Millisecond):
		}
	}
}

// wait lets time pass, or returns early when ctx ends.
func wait(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

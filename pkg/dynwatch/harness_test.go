package dynwatch_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"go.uber.org/goleak"

	"github.com/informd/informd/pkg/dynwatch"
	"github.com/informd/informd/pkg/event"
	"github.com/informd/informd/pkg/journal"
)

// must ends a test that an error leaves nothing to check in.
func must(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
}

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const deadline = time.Minute // for what must happen, on a busy machine

// recorder is a Log that keeps everything; hold makes it full.
type recorder struct {
	journal.Stateless

	mu       sync.Mutex
	events   []event.Event
	rejected []dynwatch.Rejected
	// forgotten are objects of which so many first events do not count.
	forgotten map[string]int
	gate      chan struct{} // Append waits until it is closed
	marks     map[string][]byte
	void      bool // the marks count on events that are gone
	// aside are the state events and the beginnings of first lists, which are not among
	// events.
	aside []event.Event
	// dying loses marks, as a process does that is killed before they are due, and
	// takes no event from then on.
	dying bool
	// kills has the process killed when it appends such an event, nil: none.
	kills func(event.Event) bool
	// room is how many more events and checkpoints are taken before the process is killed,
	// nil: any number. A batch can be cut.
	room *int
	// forgets: nothing is kept that was appended.
	forgets bool
}

var errDying = errors.New("the process is being killed")

func newRecorder() *recorder {
	open := make(chan struct{})
	close(open)
	return &recorder{gate: open, marks: make(map[string][]byte), forgotten: make(map[string]int)}
}

func (r *recorder) Restore(_ context.Context, target string, last func(event.Event)) (journal.Checkpoint, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	newest := make(map[string]event.Event)
	for i, e := range r.events {
		if !e.Op.Control() && i >= r.forgotten[e.Key()] {
			newest[e.Key()] = e
		}
	}
	elsewhere := 0
	for _, e := range newest {
		if e.Data = nil; e.Target == target {
			last(e)
		} else if strings.HasPrefix(e.Target, target+"@") || strings.HasPrefix(target, e.Target+"@") {
			elsewhere++
		}
	}
	return journal.Checkpoint{Mark: r.marks[target], Void: r.void, Elsewhere: func() int { return elsewhere }}, nil
}

func (r *recorder) Mark(_ context.Context, target string, mark []byte) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.dying = r.dying || r.used(1) == 0; !r.dying {
		r.marks[target] = mark
	}
	return nil
}

func (r *recorder) Last(_ context.Context, of *event.Event) (event.Event, bool, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.forgets {
		return event.Event{}, false, nil
	}
	if of.Op.Control() {
		for _, e := range slices.Backward(r.aside) {
			if e.Target == of.Target && e.Op == of.Op {
				return e, true, nil
			}
		}
		return event.Event{}, false, nil
	}
	for i, e := range slices.Backward(r.events) {
		if e.Key() == of.Key() && !e.Op.Control() && i >= r.forgotten[e.Key()] {
			return e, true, nil
		}
	}
	return event.Event{}, false, nil
}

// Append takes some control events aside, and is never full for them.
func (r *recorder) Append(ctx context.Context, events []event.Event) error {
	r.mu.Lock()
	rest := make([]event.Event, 0, len(events))
	for _, e := range events {
		e.Data = bytes.Clone(e.Data) // it is the target's again
		if e.Op == event.State || e.Op == event.Begin && !e.Replay {
			r.aside = append(r.aside, e)
		} else {
			rest = append(rest, e)
		}
	}
	if events = rest; len(events) == 0 {
		r.mu.Unlock()
		return nil
	}
	gate := r.gate
	r.mu.Unlock()
	select {
	case <-gate:
	case <-ctx.Done():
		return ctx.Err()
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.dying = r.dying || r.kills != nil && slices.ContainsFunc(events, r.kills)
	if r.dying {
		return errDying // nothing follows a mark that is lost
	}
	taken := r.used(len(events))
	for _, e := range events[:taken] {
		if !e.Op.Control() || !r.repeats(e) {
			r.events = append(r.events, e)
		}
	}
	if r.dying = taken < len(events); r.dying {
		return errDying
	}
	return nil
}

// used takes room for n records, and returns for how many there is some.
func (r *recorder) used(n int) int {
	if r.room == nil {
		return n
	}
	n = min(n, *r.room)
	*r.room -= n
	return n
}

// repeats reports whether the last control record of the kind is this one. A
// process that dies between it and the mark behind it says it again, which a
// journal with one subject for both takes once.
func (r *recorder) repeats(e event.Event) bool {
	for _, last := range slices.Backward(r.events) {
		if last.Op == e.Op && last.Target == e.Target {
			return last.ID == e.ID
		}
	}
	return false
}

// statesNow are the state events, and begun the beginnings of first lists.
func (r *recorder) statesNow() []event.Event { return r.asideOf(event.State) }

func (r *recorder) begun() []event.Event { return r.asideOf(event.Begin) }

func (r *recorder) asideOf(op event.Op) []event.Event {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(r.aside), func(e event.Event) bool { return e.Op != op })
}

func (r *recorder) marksNow() map[string][]byte {
	r.mu.Lock()
	defer r.mu.Unlock()
	return maps.Clone(r.marks)
}

func (r *recorder) reject(_ context.Context, rejected dynwatch.Rejected) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.rejected = append(r.rejected, rejected)
	return nil
}

func (r *recorder) hold() (release func()) {
	gate := make(chan struct{})
	r.mu.Lock()
	defer r.mu.Unlock()
	r.gate = gate
	return func() { close(gate) }
}

func (r *recorder) all() []event.Event {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]event.Event(nil), r.events...)
}

// lines renders events for comparison: "modified a/b 105<104 replay".
func lines(events []event.Event) []string {
	out := make([]string, 0, len(events))
	for i := range events {
		e := &events[i]
		s := string(e.Op)
		switch {
		case e.Op == event.Gap:
			s += fmt.Sprintf(" (%d,%d] %s %s", e.Gap.From, e.Gap.To, e.Gap.Reason, e.Gap.Recovered)
		case e.Op.Bounds():
			s += fmt.Sprintf(" %d", e.ResourceVersion)
		default:
			s += fmt.Sprintf(" %s/%s %s %d", e.Namespace, e.Name, e.UID, e.ResourceVersion)
			if e.PrevResourceVersion != 0 {
				s += fmt.Sprintf("<%d", e.PrevResourceVersion)
			}
			if e.Replay {
				s += " replay"
			}
		}
		out = append(out, s)
	}
	return out
}

type rig struct {
	t       *testing.T
	api     *fakeAPI
	log     *recorder
	manager *dynwatch.Manager
	// limit changes the limits of every manager that begins.
	limit func(*dynwatch.Limits)
	// logger is that of every manager that begins, maxWatches its limit.
	logger     *slog.Logger
	maxWatches int
	// withdrawn, if it is not 0, is how long a resource must be missing that is not a
	// custom one.
	withdrawn time.Duration
	// ownerWait is how long an event waits for its owners.
	ownerWait time.Duration
	// hasty has a watch that says nothing for a second replaced. Without it nothing that a
	// busy machine delays makes a watch silent or stuck.
	hasty bool
}

// newRig is a rig before its first manager begins.
func newRig(t *testing.T, api *fakeAPI) *rig {
	t.Helper()
	return &rig{
		t: t, api: api, log: newRecorder(), limit: func(*dynwatch.Limits) {}, logger: slog.New(slog.DiscardHandler),
		ownerWait: deadline,
	}
}

// output collects what is logged.
type output struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.Write(p)
}

// with returns the lines that have a part, count their number.
func (o *output) with(part string) []string {
	o.mu.Lock()
	defer o.mu.Unlock()
	var found []string
	for line := range strings.Lines(o.text.String()) {
		if strings.Contains(line, part) {
			found = append(found, line)
		}
	}
	return found
}

func (o *output) count(part string) int { return len(o.with(part)) }

// newListening is a rig before its first manager begins, of which the log, debug included, is kept, and listen starts
// one.
func newListening(t *testing.T, api *fakeAPI) (*rig, *output) {
	t.Helper()
	out := &output{}
	r := newRig(t, api)
	r.logger = slog.New(slog.NewTextHandler(out, &slog.HandlerOptions{Level: slog.LevelDebug}))
	return r, out
}

func listen(t *testing.T, api *fakeAPI, wanted ...dynwatch.Resource) (*rig, *output) {
	t.Helper()
	r, out := newListening(t, api)
	r.begin(wanted...)
	return r, out
}

// start runs a manager with short periods on the fake.
func start(t *testing.T, api *fakeAPI, wanted ...dynwatch.Resource) *rig {
	t.Helper()
	r := newRig(t, api)
	r.begin(wanted...)
	return r
}

// live is start, and waits until the targets are at the fake's revision.
func live(t *testing.T, api *fakeAPI, wanted ...dynwatch.Resource) *rig {
	t.Helper()
	r := start(t, api, wanted...)
	r.caughtUp()
	return r
}

// startHasty is start of a rig that soon replaces silent watches, liveHasty is live of one.
func startHasty(t *testing.T, api *fakeAPI, wanted ...dynwatch.Resource) *rig {
	t.Helper()
	r := newRig(t, api)
	r.hasty = true
	r.begin(wanted...)
	return r
}

func liveHasty(t *testing.T, api *fakeAPI, wanted ...dynwatch.Resource) *rig {
	t.Helper()
	r := startHasty(t, api, wanted...)
	r.caughtUp()
	return r
}

// liveFrom and liveHastyFrom are these, and return how many events there are by then.
func liveFrom(t *testing.T, api *fakeAPI, wanted ...dynwatch.Resource) (r *rig, events int) {
	t.Helper()
	r = live(t, api, wanted...)
	return r, len(r.log.all())
}

func liveHastyFrom(t *testing.T, api *fakeAPI, wanted ...dynwatch.Resource) (r *rig, events int) {
	t.Helper()
	r = liveHasty(t, api, wanted...)
	return r, len(r.log.all())
}

// startLimited is start with other limits.
func startLimited(t *testing.T, api *fakeAPI, limit func(*dynwatch.Limits), wanted ...dynwatch.Resource) *rig {
	t.Helper()
	r := newRig(t, api)
	r.limit = limit
	r.begin(wanted...)
	return r
}

// begin starts a manager on the log.
func (r *rig) begin(wanted ...dynwatch.Resource) {
	r.t.Helper()
	m, err := dynwatch.New(dynwatch.Options{
		Cluster: "test", Kubernetes: r.api.config(), Log: r.log, Reject: r.log.reject,
		RedactionKey: []byte("0123456789abcdef"), Logger: r.logger, MaxWatches: r.maxWatches,
	})
	must(r.t, err)
	r.t.Cleanup(m.Close)
	silence := time.Hour
	if r.hasty {
		silence = time.Second
	}
	m.SetTiming(silence, 50*time.Millisecond, 5*time.Millisecond)
	m.SetOwnerWait(r.ownerWait)
	if r.withdrawn != 0 {
		m.SetWithdrawn(r.withdrawn)
	}
	limits := m.Limits()
	r.limit(&limits)
	m.SetLimits(limits)
	r.manager = m
	must(r.t, m.Apply(wanted))
}

// goLive is begin, and waits until the targets are at the fake's revision. Restart ends a manager before that.
func (r *rig) goLive(wanted ...dynwatch.Resource) {
	r.t.Helper()
	r.begin(wanted...)
	r.caughtUp()
}

func (r *rig) restart(kill bool, wanted ...dynwatch.Resource) {
	r.t.Helper()
	r.stop(kill)
	r.goLive(wanted...)
}

// stop ends the manager, with kill so that its last marks are lost.
func (r *rig) stop(kill bool) {
	r.log.set(func() { r.log.dying = kill })
	r.manager.Close()
	r.log.set(func() { r.log.dying = false })
}

func (r *recorder) set(change func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	change()
}

func things() dynwatch.Resource { return dynwatch.Resource{Group: "example.com", Resource: "things"} }

func inNamespaces(namespaces ...string) dynwatch.Resource {
	wanted := things()
	wanted.Namespaces = namespaces
	return wanted
}

// eventually waits until ok holds.
func (r *rig) eventually(what string, ok func() bool) {
	r.t.Helper()
	r.within(deadline, what, ok)
}

// within is eventually with another deadline.
func (r *rig) within(deadline time.Duration, what string, ok func() bool) {
	r.t.Helper()
	end := time.Now().Add(deadline)
	poll := time.NewTicker(2 * time.Millisecond)
	defer poll.Stop()
	for !ok() {
		if time.Now().After(end) {
			r.t.Fatalf("%s: not after %v\nevents:\n%s\nstatus: %+v", what, deadline, strings.Join(lines(r.log.all()), "\n"), r.manager.Targets())
		}
		<-poll.C
	}
}

// state waits until the only target is in a state.
func (r *rig) state(want dynwatch.State) dynwatch.TargetStatus {
	r.t.Helper()
	var got dynwatch.TargetStatus
	r.eventually("state "+string(want), func() bool {
		got = r.manager.Targets()[0]
		return got.State == want
	})
	return got
}

// caughtUp waits until the cursors of all targets are at the fake's revision.
func (r *rig) caughtUp() {
	r.t.Helper()
	r.eventually("caught up", r.isCaughtUp)
}

func (r *rig) isCaughtUp() bool {
	rev := r.api.revisionNow()
	return !slices.ContainsFunc(r.manager.Targets(), func(s dynwatch.TargetStatus) bool {
		return s.State != dynwatch.Live || s.ResourceVersion != rev
	})
}

// until waits for an event with an operation behind the first n ones, untilGap for a gap with a reason.
func (r *rig) until(n int, op event.Op) {
	r.t.Helper()
	r.eventually("an event "+string(op), func() bool { return count(r.log.all()[n:], op) > 0 })
}

func (r *rig) untilGap(n int, reason string) {
	r.t.Helper()
	r.eventually("a gap "+reason, func() bool {
		return slices.ContainsFunc(r.log.all()[n:], func(e event.Event) bool {
			return e.Op == event.Gap && e.Gap.Reason == reason
		})
	})
}

// untilKilled waits until the log takes nothing more.
func (r *rig) untilKilled() {
	r.t.Helper()
	r.eventually("killed", func() (killed bool) {
		r.log.set(func() { killed = r.log.dying })
		return killed
	})
}

// gone waits until the only target counts as removed, and the log has what that announces, which
// comes a little later.
func (r *rig) gone(n, announced int) {
	r.t.Helper()
	r.eventually("gone", func() bool { return !r.manager.Targets()[0].Synced && len(r.log.all()) >= n+announced })
}

// since returns the lines of the events after the first n.
func (r *rig) since(n int) []string { return lines(r.log.all()[n:]) }

// wantEvents holds the events after the first n to their lines, wantUnordered to the same ones in any order,
// and wantThings to the lines of those that are about things.
func (r *rig) wantEvents(n int, want ...string) {
	r.t.Helper()
	r.wantLines(want, r.since(n))
}

func (r *rig) wantUnordered(n int, want ...string) {
	r.t.Helper()
	r.wantLines(sorted(want), sorted(r.since(n)))
}

func (r *rig) wantThings(n int, want ...string) {
	r.t.Helper()
	r.wantLines(want, thingLines(r.log.all()[n:]))
}

func (r *rig) wantLines(want, got []string) {
	r.t.Helper()
	same(r.t, want, got, cmpopts.EquateEmpty())
}

// same compares what a test got with what it wants.
func same[T any](t testing.TB, want, got T, options ...cmp.Option) {
	t.Helper()
	if diff := cmp.Diff(want, got, options...); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// wantAuditOf holds an audit of now to so many objects, and to no divergence.
func (r *rig) wantAuditOf(objects int) {
	r.t.Helper()
	if got := r.auditNow(); got.Divergences != 0 || got.Err != nil || got.Objects != objects {
		r.t.Errorf("audit: %+v, want %d objects", got, objects)
	}
}

// wantAudit holds one to so many divergences.
func (r *rig) wantAudit(divergences int) {
	r.t.Helper()
	if got := r.auditNow(); got.Divergences != divergences || got.Err != nil {
		r.t.Errorf("audit: %+v, want %d divergences", got, divergences)
	}
}

func (r *rig) wantEpoch(epoch uint64) {
	r.t.Helper()
	if s := r.manager.Targets()[0]; s.Epoch != epoch {
		r.t.Errorf("epoch %d, want %d", s.Epoch, epoch)
	}
}

func (r *rig) untilEpoch(epoch uint64) {
	r.t.Helper()
	r.eventually("another epoch", func() bool { return r.manager.Targets()[0].Epoch == epoch })
}

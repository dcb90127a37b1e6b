package dynwatch_test

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/informd/informd/pkg/dynwatch"
	"github.com/informd/informd/pkg/event"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const deadline = 10 * time.Second

// recorder is a Log that keeps everything; hold makes it full.
type recorder struct {
	mu       sync.Mutex
	events   []event.Event
	rejected []dynwatch.Rejected
	gate     chan struct{} // Append waits until it is closed
}

func newRecorder() *recorder {
	open := make(chan struct{})
	close(open)
	return &recorder{gate: open}
}

func (r *recorder) Append(ctx context.Context, events []event.Event) error {
	r.mu.Lock()
	gate := r.gate
	r.mu.Unlock()
	select {
	case <-gate:
	case <-ctx.Done():
		return ctx.Err()
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.events = append(r.events, events...)
	return nil
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
		case e.Op == event.Synced:
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
}

// start runs a manager with short periods on the fake and waits for the first
// sync if there are resources.
func start(t *testing.T, api *fakeAPI, wanted ...dynwatch.Resource) *rig {
	t.Helper()
	r := &rig{t: t, api: api, log: newRecorder()}
	m, err := dynwatch.New(dynwatch.Options{
		Cluster: "test", Kubernetes: api.config(), Log: r.log, Reject: r.log.reject,
		RedactionKey: []byte("0123456789abcdef"), Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(m.Close)
	m.SetTiming(time.Second, 50*time.Millisecond, 5*time.Millisecond)
	r.manager = m
	if err := m.Apply(wanted); err != nil {
		t.Fatal(err)
	}
	return r
}

func things() dynwatch.Resource { return dynwatch.Resource{Group: "example.com", Resource: "things"} }

// eventually waits until ok holds.
func (r *rig) eventually(what string, ok func() bool) {
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

// caughtUp waits until the target's cursor is at the fake's revision.
func (r *rig) caughtUp() {
	r.t.Helper()
	r.eventually("caught up", func() bool {
		s := r.manager.Targets()[0]
		r.api.mu.Lock()
		rev := r.api.rev
		r.api.mu.Unlock()
		return s.State == dynwatch.Live && s.ResourceVersion == rev
	})
}

// since returns the lines of the events after the first n.
func (r *rig) since(n int) []string { return lines(r.log.all()[n:]) }

package chaos

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"
)

const (
	overlapping = 3 // faults at a time, at most
	minPause    = 500 * time.Millisecond
	maxPause    = 4 * time.Second
	retryPause  = 200 * time.Millisecond
	// passes is how many faults may go ahead of one that has to wait.
	passes = 12
	// healing bounds a fault with its healing.
	healing = 6 * time.Minute
)

// fault is one way to break the rig.
type fault struct {
	name string // "N1-kill-informd"
	// touches are the parts that no other fault may touch meanwhile; "all" is all.
	touches []string
	// lacks says why the fault is not possible on this rig; empty: it is.
	lacks func(*Rig) string
	// strike breaks, holds and heals.
	strike func(*attack) error
}

func (f *fault) id() string { id, _, _ := strings.Cut(f.name, "-"); return id }

// chosen reports whether the names or ids of a selection name the fault.
func (f *fault) chosen(selection []string) bool {
	return slices.Contains(selection, f.id()) || slices.Contains(selection, f.name)
}

// attack is one strike.
type attack struct {
	*Rig
	ctx      context.Context //nolint:containedctx // bounds the healing; the strike is its owner
	end      <-chan struct{} // closed when no fault may be held any longer
	random   *rand.Rand
	workload *Workload
}

// hold waits for a random time, or until the run's time is over.
func (a *attack) hold(least, most time.Duration) {
	timer := time.NewTimer(a.between(least, most))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-a.end:
	}
}

func (a *attack) between(least, most time.Duration) time.Duration {
	return least + time.Duration(a.random.Int64N(int64(most-least)+1))
}

// until repeats what other faults may make fail.
func (a *attack) until(do func(context.Context) error) error {
	return a.untilWithin(requestTimeout, do)
}

// untilWithin is until with another limit for one attempt.
func (a *attack) untilWithin(limit time.Duration, do func(context.Context) error) error {
	ticker := time.NewTicker(retryPause)
	defer ticker.Stop()
	for {
		ctx, cancel := context.WithTimeout(a.ctx, limit)
		err := do(ctx)
		cancel()
		if err == nil {
			return nil
		}
		select {
		case <-ticker.C:
		case <-a.ctx.Done():
			return fmt.Errorf("%w: %w", a.ctx.Err(), err)
		}
	}
}

// Strike is one fault that was injected, as the report has it.
type Strike struct {
	Fault   string
	Began   time.Time
	Healed  time.Time
	Caught  time.Time // when every sink had all from before the healing
	Err     string
	touches []string
}

// Nemesis injects faults by a schedule that follows from the seed.
type Nemesis struct {
	rig      *Rig
	workload *Workload
	faults   []*fault
	random   *rand.Rand
	out      io.Writer

	mu      sync.Mutex
	busy    map[string]bool // what is being touched
	active  int
	freed   chan struct{} // closed when a fault heals
	strikes []*Strike
}

// NewNemesis picks the faults that are wanted and possible. Those that are wanted
// by name and not possible are an error.
func NewNemesis(rig *Rig, workload *Workload) (*Nemesis, error) {
	n := &Nemesis{
		rig: rig, workload: workload, random: rand.New(rand.NewPCG(rig.options.Seed, 2)), out: rig.options.Out,
		busy: make(map[string]bool), freed: make(chan struct{}),
	}
	wanted := rig.options.Faults
	for _, f := range faults() {
		if len(wanted) > 0 && !f.chosen(wanted) {
			continue
		}
		lacks := ""
		if f.lacks != nil {
			lacks = f.lacks(rig)
		}
		switch {
		case lacks == "":
			n.faults = append(n.faults, f)
		case slices.Contains(wanted, f.name):
			return nil, fmt.Errorf("fault %s: %s", f.name, lacks)
		default:
			fmt.Fprintf(n.out, "chaos: without %s: %s\n", f.name, lacks)
		}
	}
	if len(n.faults) == 0 {
		return nil, fmt.Errorf("no fault of %q is possible", wanted)
	}
	return n, nil
}

// Run injects faults for the duration and returns when all are healed.
func (n *Nemesis) Run(ctx context.Context, duration time.Duration) {
	end := make(chan struct{})
	timer := time.AfterFunc(duration, func() { close(end) })
	defer timer.Stop()
	var running sync.WaitGroup
	defer running.Wait()
	queue := n.queue()
	for {
		pause := minPause + time.Duration(n.random.Int64N(int64(maxPause-minPause)))
		select {
		case <-time.After(pause):
		case <-end:
			return
		case <-ctx.Done():
			return
		}
		i, ok := n.claim(queue, end)
		if !ok {
			return
		}
		q := queue[i]
		queue = append(slices.Delete(queue, i, i+1), q)
		seed := q.random.Uint64()
		running.Go(func() { n.strike(ctx, q.fault, seed, end) })
	}
}

// queued is a fault in the queue.
type queued struct {
	*fault
	random *rand.Rand // of the seeds of its strikes
	passed int        // how often others went ahead
}

// queue has every fault once, in an order of the seed, so that a short run meets all
// kinds. The strikes of one fault have the same seeds in every run, whenever its turn
// comes.
func (n *Nemesis) queue() []*queued {
	var queue []*queued
	for _, i := range n.random.Perm(len(n.faults)) {
		queue = append(queue, &queued{fault: n.faults[i], random: rand.New(rand.NewPCG(n.random.Uint64(), 3))})
	}
	return queue
}

// claim waits until no fault touches what a fault of the queue touches, and returns the
// fault's index; false if the time is over before. Faults that touch other parts go
// ahead of one that has to wait, but not for ever.
func (n *Nemesis) claim(queue []*queued, end <-chan struct{}) (int, bool) {
	for {
		n.mu.Lock()
		for i, q := range queue {
			if n.free(q.fault) {
				n.take(queue, i)
				n.mu.Unlock()
				return i, true
			}
			if q.passed >= passes {
				break // nothing goes ahead of it any more
			}
		}
		freed := n.freed
		n.mu.Unlock()
		select {
		case <-freed:
		case <-end:
			return 0, false
		}
	}
}

// take notes what a fault of the queue touches, and that it went ahead of others.
func (n *Nemesis) take(queue []*queued, i int) {
	for _, ahead := range queue[:i] {
		ahead.passed++
	}
	queue[i].passed = 0
	n.active++
	for _, part := range queue[i].touches {
		n.busy[part] = true
	}
}

func (n *Nemesis) free(f *fault) bool {
	if n.active >= overlapping || n.busy["all"] || slices.Contains(f.touches, "all") && n.active > 0 {
		return false
	}
	return !slices.ContainsFunc(f.touches, func(part string) bool { return n.busy[part] })
}

func (n *Nemesis) strike(ctx context.Context, f *fault, seed uint64, end <-chan struct{}) {
	s := &Strike{Fault: f.name, Began: time.Now(), touches: f.touches}
	n.mu.Lock()
	n.strikes = append(n.strikes, s)
	n.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, healing)
	defer cancel()
	err := f.strike(&attack{Rig: n.rig, ctx: ctx, end: end, random: rand.New(rand.NewPCG(seed, 4)), workload: n.workload})
	n.mu.Lock()
	defer n.mu.Unlock()
	s.Healed = time.Now()
	if err != nil {
		s.Err = err.Error()
		fmt.Fprintf(n.out, "chaos: %s: %v\n", f.name, err)
	}
	n.active--
	for _, part := range f.touches {
		delete(n.busy, part)
	}
	close(n.freed)
	n.freed = make(chan struct{})
}

// Active names the faults that are not healed.
func (n *Nemesis) Active() []string {
	n.mu.Lock()
	defer n.mu.Unlock()
	var names []string
	for _, s := range n.strikes {
		if s.Healed.IsZero() {
			names = append(names, s.Fault)
		}
	}
	return names
}

// Strikes returns what was injected so far.
func (n *Nemesis) Strikes() []Strike {
	n.mu.Lock()
	defer n.mu.Unlock()
	all := make([]Strike, len(n.strikes))
	for i, s := range n.strikes {
		all[i] = *s
	}
	return all
}

// observe notes for every healed fault when the sinks had caught up with it.
// oldest is since when anything is missing; zero: nothing is.
func (n *Nemesis) observe(now, oldest time.Time) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, s := range n.strikes {
		if !s.Healed.IsZero() && s.Caught.IsZero() && (oldest.IsZero() || oldest.After(s.Healed)) {
			s.Caught = now
		}
	}
}

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
	ticker := time.NewTicker(retryPause)
	defer ticker.Stop()
	for {
		ctx, cancel := context.WithTimeout(a.ctx, requestTimeout)
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
	Fault   string    `json:"fault"`
	Began   time.Time `json:"began"`
	Healed  time.Time `json:"healed"`
	Caught  time.Time `json:"caught_up"` // when every sink had all from before the healing
	Err     string    `json:"err,omitempty"`
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
	order := n.shuffled()
	for i := 0; ; i++ {
		if i == len(order) {
			order, i = n.shuffled(), 0
		}
		f, seed := order[i], n.random.Uint64()
		pause := minPause + time.Duration(n.random.Int64N(int64(maxPause-minPause)))
		select {
		case <-time.After(pause):
		case <-end:
			return
		case <-ctx.Done():
			return
		}
		if !n.claim(f, end) {
			return
		}
		running.Go(func() { n.strike(ctx, f, seed, end) })
	}
}

// shuffled has every fault once, so that a short run meets all kinds.
func (n *Nemesis) shuffled() []*fault {
	order := slices.Clone(n.faults)
	n.random.Shuffle(len(order), func(i, j int) { order[i], order[j] = order[j], order[i] })
	return order
}

// claim waits until nobody touches what the fault touches; false if the time is
// over before.
func (n *Nemesis) claim(f *fault, end <-chan struct{}) bool {
	for {
		n.mu.Lock()
		if n.free(f) {
			n.active++
			for _, part := range f.touches {
				n.busy[part] = true
			}
			n.mu.Unlock()
			return true
		}
		freed := n.freed
		n.mu.Unlock()
		select {
		case <-freed:
		case <-end:
			return false
		}
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

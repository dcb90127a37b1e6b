package chaos

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/informd/informd/examples/materialised-view/view"
)

const (
	prefill          = 3 * time.Second // of writing before informd starts
	calm             = 8 * time.Second // without faults, before and after
	firstSync        = 2 * time.Minute
	liveness         = time.Minute      // I9
	quiet            = 10 * time.Second // I7
	bookmarks        = 2 * time.Minute  // an API server sends one every minute
	progressPeriod   = 10 * time.Second
	observePeriod    = 100 * time.Millisecond
	repeatsPerStrike = 2000 // I6: events in flight, and delivered since the cursor was last stored
)

// run is one run of the machine.
type run struct {
	options  Options
	rig      *Rig
	workload *Workload
	// controllers make the load of an independent run; nil in others.
	controllers *controllers
	nemesis     *Nemesis
	base        uint64                 // the baseline's first lists
	settled     uint64                 // see Truth
	rows        map[string]view.Object // of the view, at the end
	letters     []sourceLetter         // of the source, at the end
	late        []Violation
	began       time.Time
}

// Run builds the rig, torments informd for the duration and checks what the sinks
// received. It blocks for some minutes more than the duration. An error means
// that the run itself went wrong; what it found out is in the report.
func Run(ctx context.Context, options Options) (*Report, error) {
	options, err := options.withDefaults()
	if err != nil {
		return nil, err
	}
	fmt.Fprintf(options.Out, "chaos: seed %d, %s, journal %s\n", options.Seed, options.Duration, options.Journal)
	rig, err := NewRig(ctx, options)
	if err != nil {
		return nil, err
	}
	r := &run{options: options, rig: rig, began: time.Now()}
	report, err := r.torment(ctx)
	return report, errors.Join(err, r.keepLogs(), rig.Close())
}

// keepLogs copies the informds' logs out of the rig's directory.
func (r *run) keepLogs() error {
	if r.options.Logs == "" {
		return nil
	}
	errs := []error{os.MkdirAll(r.options.Logs, 0o700)}
	for _, d := range r.rig.informds {
		content, err := os.ReadFile(d.log)
		errs = append(errs, err, os.WriteFile(filepath.Join(r.options.Logs, filepath.Base(d.log)), content, 0o600))
	}
	return errors.Join(errs...)
}

func (r *run) torment(ctx context.Context) (*Report, error) {
	if err := r.startLoad(); err != nil {
		return nil, err
	}
	defer func() { _ = r.stopLoad() }() // after an error; else it is stopped already
	pause(ctx, prefill)
	if err := r.rig.StartInformd(ctx); err != nil {
		return nil, err
	}
	if err := r.synced(ctx); err != nil {
		return nil, err
	}
	var err error
	if r.nemesis, err = NewNemesis(r.rig, r.workload); err != nil {
		return nil, err
	}
	observed := r.observe(ctx)
	pause(ctx, calm)
	r.nemesis.Run(ctx, r.options.Duration)
	pause(ctx, calm)
	if err := r.stopLoad(); err != nil {
		return nil, err
	}
	r.arrive(ctx)
	if err := r.restartQuietly(ctx); err != nil {
		return nil, err
	}
	if err := r.settle(ctx); err != nil {
		return nil, err
	}
	observed()
	if !r.options.Baseline {
		if r.letters, err = r.rig.sourceLetters(ctx); err != nil {
			return nil, err
		}
	}
	return r.report()
}

// synced waits until every sink has the first lists.
func (r *run) synced(ctx context.Context) error {
	if r.options.Baseline {
		pause(ctx, calm) // it does not tell
		var err error
		r.base, err = r.rig.oracle.CatchUp(ctx)
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, firstSync)
	defer cancel()
	for {
		waiting := ""
		for _, c := range r.rig.consumers() {
			if n := c.targetsSynced(); n < len(r.rig.kinds) {
				waiting = fmt.Sprintf("sink %s has %d of %d snapshots", c.name, n, len(r.rig.kinds))
			}
		}
		if waiting == "" {
			return nil
		}
		if ctx.Err() != nil {
			return fmt.Errorf("first sync: %s after %s\n%s", waiting, firstSync, r.rig.informds[0].process.LogTail())
		}
		pause(ctx, observePeriod)
	}
}

// observe watches how the sinks follow, and tells about it, until the returned
// function is called.
func (r *run) observe(ctx context.Context) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	var running sync.WaitGroup
	running.Go(func() {
		ticker := time.NewTicker(observePeriod)
		defer ticker.Stop()
		told := time.Now()
		for {
			select {
			case <-ctx.Done():
				return
			case now := <-ticker.C:
				_, oldest := r.lag()
				r.nemesis.observe(now, oldest)
				if now.Sub(told) >= progressPeriod {
					told = now
					r.tell()
				}
			}
		}
	})
	return func() { cancel(); running.Wait() }
}

// lag returns how many objects the slowest sink lacks something of, and since when.
func (r *run) lag() (objects int, oldest time.Time) {
	for _, c := range r.rig.consumers() {
		n, since := c.tracker.Lag()
		objects = max(objects, n)
		if !since.IsZero() && (oldest.IsZero() || since.Before(oldest)) {
			oldest = since
		}
	}
	return objects, oldest
}

func (r *run) tell() {
	written, failed := r.workload.Writes()
	var line strings.Builder
	fmt.Fprintf(&line, "chaos: %4.0f s  %d writes (%d failed)", time.Since(r.began).Seconds(), written, failed)
	for _, c := range r.rig.consumers() {
		n, oldest := c.tracker.Lag()
		fmt.Fprintf(&line, "  %s %d", c.name, c.count())
		if n > 0 {
			fmt.Fprintf(&line, " (%d behind, %.1f s)", n, time.Since(oldest).Seconds())
		}
	}
	for _, d := range r.rig.informds {
		fmt.Fprintf(&line, "  %d MiB", residentBytes(d.process.PID())>>20)
		if n := len(d.Unhealthy()); n > 0 {
			fmt.Fprintf(&line, " (%d times restarted by its liveness probe)", n)
		}
	}
	fmt.Fprintf(r.options.Out, "%s  %v of %d faults\n", line.String(), r.nemesis.Active(), len(r.nemesis.Strikes()))
}

// arrive is I9: after the last fault healed everything arrives in time.
func (r *run) arrive(ctx context.Context) {
	began := time.Now()
	for ctx.Err() == nil {
		n, oldest := r.lag()
		took := time.Since(began)
		switch {
		case n == 0 || oldest.After(began):
			if took > liveness {
				r.late = append(r.late, Violation{Invariant: "I9", Text: fmt.Sprintf("it took %s after the last fault until everything had arrived", took.Round(time.Second))})
			}
			return
		case took > liveness+r.options.Patience || r.options.Baseline && took > liveness/2:
			r.late = append(r.late, r.missing()...)
			return
		}
		pause(ctx, observePeriod)
	}
}

// missing says what has not arrived.
func (r *run) missing() []Violation {
	var all []Violation
	for _, c := range r.rig.consumers() {
		if n, _ := c.tracker.Lag(); n > 0 {
			all = append(all, Violation{Invariant: "I9", Sink: c.name, Text: fmt.Sprintf("of %d objects something has not arrived %s after the last fault: %v", n, liveness+r.options.Patience, c.tracker.Some(5))})
		}
	}
	return all
}

// restartQuietly is I7: a restart with nothing changed delivers nothing.
func (r *run) restartQuietly(ctx context.Context) error {
	if !r.options.durable() || r.options.Baseline || len(r.late) > 0 {
		return nil
	}
	head, err := r.bookmarked(ctx)
	if err != nil {
		return err
	}
	for _, d := range r.rig.informds {
		if err := d.Stop(); err != nil {
			r.late = append(r.late, Violation{Invariant: "I13", Text: "a graceful stop: " + err.Error()})
		}
	}
	pause(ctx, time.Second) // for the consumers
	before := make(map[*consumer]int)
	for _, c := range r.rig.consumers() {
		before[c] = c.count()
	}
	for _, d := range r.rig.informds {
		if err := d.Start(ctx); err != nil {
			return err
		}
	}
	pause(ctx, quiet)
	for c, n := range before {
		for _, d := range c.since(n) {
			// Leases are renewed and Events expire meanwhile, also while it stops.
			if d.control() || d.RV <= head {
				r.late = append(r.late, Violation{Invariant: "I7", Sink: c.name, UID: d.UID, RV: d.RV, Text: fmt.Sprintf("%s %s was delivered by a restart with nothing changed", d.Op, d.ID)})
			}
		}
	}
	return nil
}

// bookmarked waits until the cursors of all targets have passed what is there now, those
// of quiet resources by a bookmark: an API server that was restarted may deny the history
// behind an older one, which is a gap and no news. It returns the revision that they have passed.
func (r *run) bookmarked(ctx context.Context) (uint64, error) {
	head, err := r.rig.oracle.Head(ctx)
	if err != nil {
		return 0, err
	}
	for end := time.Now().Add(bookmarks); time.Now().Before(end) && ctx.Err() == nil; pause(ctx, observePeriod) {
		for _, d := range r.rig.informds {
			targets, err := d.Targets(ctx)
			behind := func(t TargetStatus) bool { return t.ResourceVersion < head }
			if err == nil && len(targets) > 0 && !slices.ContainsFunc(targets, behind) {
				return head, nil
			}
		}
	}
	return head, ctx.Err()
}

// settle waits until all that etcd holds has arrived, and ends the reading.
func (r *run) settle(ctx context.Context) error {
	head, err := r.rig.oracle.CatchUp(ctx)
	if err != nil {
		return err
	}
	r.settled = head
	marked := time.Now()
	for ctx.Err() == nil && time.Since(marked) < liveness && len(r.late) == 0 {
		if n, oldest := r.lag(); n == 0 || oldest.After(marked) {
			break
		}
		pause(ctx, observePeriod)
	}
	for _, c := range r.rig.consumers() {
		c.close()
	}
	if r.rig.view != nil {
		if err := r.rig.view.CatchUp(ctx); err != nil {
			return err
		}
		r.rows = r.rig.view.Rows(r.rig.targets)
	}
	_, err = r.rig.oracle.CatchUp(ctx) // so that nothing is a phantom that is only new
	r.rig.oracle.Pause()
	return err
}

// pause waits, or until ctx ends.
func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

package dynwatch

import (
	"context"
	"slices"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/informd/informd/internal/display"
	"github.com/informd/informd/pkg/dynwatch/internal/catalog"
	"github.com/informd/informd/pkg/dynwatch/internal/status"
	"github.com/informd/informd/pkg/dynwatch/internal/target"
)

// expander keeps the targets of wildcards those that the catalog says. One goroutine
// reads the catalog: at its start, and when served tells of a change. It hands the
// whole wanted set to converge, as Apply does.
type expander struct {
	m *Manager
	// applied has room for one: the wanted set is another one.
	applied chan struct{}
	ended   sync.WaitGroup

	// stop is nil until the goroutine runs. It, generation, which counts wanted sets,
	// and what follows are guarded by converging; only the goroutine changes catalog,
	// ready and limited.
	stop       context.CancelFunc
	generation int
	catalog    *catalog.Catalog
	ready      map[string]bool // the wildcards that were expanded, by id
	// limited says, by id, which wildcards the limit of watches concerns, and why.
	limited map[string]string

	// These belong to the goroutine.
	notes       *catalog.Notes
	poller      *catalog.Poller
	toldSecrets bool
}

func newExpander(m *Manager) *expander {
	return &expander{m: m, applied: make(chan struct{}, 1), ready: make(map[string]bool), notes: catalog.NewNotes(m.options.Log, m.options.Logger)}
}

// apply has another wanted set expanded soon. The caller holds converging.
func (e *expander) apply(wanted wantedSet) {
	e.generation++
	if e.stop == nil && len(wanted.Patterns) > 0 {
		m := e.m
		e.poller = catalog.NewPoller(m.clients, m.served, m.timing.Timing, m.timing.Periods, m.options.Logger)
		var ctx context.Context
		ctx, e.stop = context.WithCancel(context.Background())
		e.ended.Go(func() { e.run(ctx) })
	}
	for id := range e.ready {
		if !wanted.Has(id) {
			delete(e.ready, id)
		}
	}
	e.show(wanted, e.unready(Starting, ""))
	select {
	case e.applied <- struct{}{}:
	default:
	}
}

// close ends the goroutine and waits until it has ended. The caller does not hold
// converging, and nothing is applied any more.
func (e *expander) close() {
	if e.stop != nil {
		e.stop()
	}
	e.ended.Wait()
}

func (e *expander) run(ctx context.Context) {
	read := true
	for ctx.Err() == nil {
		err := e.expand(ctx, read)
		if err != nil && ctx.Err() == nil {
			e.m.options.Logger.Warn("wildcards not expanded; running watches continue", "err", err)
		}
		read = e.poller.Wait(ctx, err, e.applied)
	}
}

// expand makes the targets those of the wanted set and, with read, of a new catalog.
// If there is none, what is known goes on to count.
func (e *expander) expand(ctx context.Context, read bool) error {
	m := e.m
	m.converging.Lock()
	wanted, generation, c := m.wanted, e.generation, e.catalog
	m.converging.Unlock()
	e.notes.Forget(&wanted.Set)
	if len(wanted.Patterns) == 0 {
		m.converging.Lock()
		e.catalog = nil // it grows old: notices are for nobody
		m.converging.Unlock()
		return nil
	}
	var failed error
	if read || c == nil || m.served.Ahead(c, &wanted.Set) {
		if c, failed = e.poller.Read(ctx, c, &wanted.Set); failed == nil {
			m.converging.Lock()
			e.catalog = c
			m.converging.Unlock()
		}
	}
	if c == nil {
		e.fail(wanted, failed)
		return failed
	}
	p, err := e.plan(ctx, wanted, c)
	if err != nil {
		e.fail(wanted, err)
		return err
	}
	m.converging.Lock()
	defer m.converging.Unlock()
	if m.closed || e.generation != generation {
		return failed // what was applied meanwhile is expanded next
	}
	targets := wanted.expanded(p)
	begun, ended := m.converge(targets)
	for id := range p.Notes {
		e.ready[id] = true
	}
	e.limit(wanted, p)
	e.show(wanted, func(of catalog.Pattern) shown {
		if reason := p.Matchless(of, c); reason != "" {
			return shown{Waiting, reason}
		}
		return shown{Degraded, e.limited[of.ID()]}
	})
	if begun+ended > 0 {
		m.options.Logger.Info("wildcards expanded", "count", len(targets.targets), "started", begun, "stopped", ended)
	}
	e.tellSecrets(p)
	return failed
}

// plan makes the plan, and has the log know of it before anything follows from it.
func (e *expander) plan(ctx context.Context, wanted wantedSet, c *catalog.Catalog) (*catalog.Expansion, error) {
	notes, err := e.notes.Load(ctx, &wanted.Set)
	if err != nil {
		return nil, err
	}
	p := wanted.Plan(c, notes, func(one catalog.Choice) bool {
		return !slices.ContainsFunc(wanted.as(one), func(s target.Spec) bool { return !e.m.gone(s.Name()) })
	})
	return p, e.notes.Save(ctx, p.Notes)
}

// shown is how a wildcard is shown, as if it were one target. It is not shown without
// a reason, unless it is [Starting].
type shown struct {
	state  State
	reason string
}

// unready shows the wildcards that were not expanded yet in a state. The others are
// shown for the limit of watches only.
func (e *expander) unready(state State, reason string) func(catalog.Pattern) shown {
	return func(p catalog.Pattern) shown {
		if e.ready[p.ID()] {
			return shown{Degraded, e.limited[p.ID()]}
		}
		return shown{state, reason}
	}
}

// fail shows the error that keeps wildcards from being expanded.
func (e *expander) fail(wanted wantedSet, err error) {
	state := Degraded
	if apierrors.IsForbidden(err) {
		state = Forbidden
	}
	e.m.converging.Lock()
	defer e.m.converging.Unlock()
	e.show(wanted, e.unready(state, err.Error()))
}

// limit logs which resources the limit of watches leaves out, when that changes. The
// caller holds converging.
func (e *expander) limit(wanted wantedSet, p *catalog.Expansion) {
	limited := make(map[string]string)
	for _, of := range wanted.Patterns {
		id := of.ID()
		reason := p.AboveLimit(id, wanted.maxWatches)
		if reason == "" {
			continue
		}
		limited[id] = reason
		if e.limited[id] != reason {
			e.m.options.Logger.Error("watch limit reached; some resources are not watched",
				"target", id, "max_watches", wanted.maxWatches, "count", len(p.Beyond[id]), "resources", catalog.SomeOf(p.Beyond[id]),
				"next", "exclude resources, or raise kubernetes.maxWatches")
		}
	}
	if len(limited) == 0 && len(e.limited) > 0 {
		e.m.options.Logger.Info("every matching resource is watched again")
	}
	e.limited = limited
}

// show has [Manager.Targets] show the wildcards that are not, or not completely, shown
// by their targets.
func (e *expander) show(wanted wantedSet, how func(catalog.Pattern) shown) {
	e.m.mu.Lock()
	defer e.m.mu.Unlock()
	before := e.m.wildcards
	e.m.wildcards = nil
	for i := range wanted.Patterns {
		p, of := wanted.Patterns[i], wanted.templates[i][0]
		s := how(p)
		if s.reason == "" && s.state != Starting {
			continue
		}
		one := statusOf(target.Spec{Group: of.Group, Resource: of.Resource, MetadataOnly: of.MetadataOnly}, status.New(""))
		one.State, one.Reason = s.state, display.Reason(s.reason)
		one.Looked = s.state == Waiting || s.state == Forbidden || s.reason != "" && s.reason == e.limited[p.ID()]
		i := slices.IndexFunc(before, func(b TargetStatus) bool { return b.Name == one.Name && b.State == one.State })
		if i >= 0 {
			one.Since = before[i].Since
		}
		e.m.wildcards = append(e.m.wildcards, one)
	}
}

// tellSecrets logs once that Secrets are watched without having been named.
func (e *expander) tellSecrets(p *catalog.Expansion) {
	secrets := schema.GroupResource{Resource: "secrets"}
	for _, n := range p.Notes {
		if e.toldSecrets || !slices.Contains(n.Running, catalog.NameOf(secrets)) {
			continue
		}
		e.toldSecrets = true
		e.m.options.Logger.Info("wildcard matches Secrets; their values are hashed",
			"next", "set excludeResources: [secrets] to exclude them")
	}
}

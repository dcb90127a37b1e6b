package dynwatch

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/informd/informd/internal/display"
	"github.com/informd/informd/internal/form"
	"github.com/informd/informd/pkg/dynwatch/internal/catalog"
	"github.com/informd/informd/pkg/dynwatch/internal/emit"
	"github.com/informd/informd/pkg/dynwatch/internal/frame"
	"github.com/informd/informd/pkg/dynwatch/internal/kube"
	"github.com/informd/informd/pkg/dynwatch/internal/selection"
	"github.com/informd/informd/pkg/dynwatch/internal/target"
	"github.com/informd/informd/pkg/event"
)

// Manager runs one loop per target of the wanted set. Its methods may be called
// concurrently.
type Manager struct {
	options  Options
	clients  *kube.Clients
	redactor *frame.Redactor
	served   *catalog.Watcher
	// namespaces are followed while a target needs them.
	namespaces *selection.Namespaces
	// owners finds the controllers of controllers.
	owners *emit.OwnerFinder
	timing target.Timing
	limits target.Limits
	// openings give turns to targets that open their watch.
	openings *kube.Openings

	// converging is held while targets are started and ended, which takes time.
	converging sync.Mutex
	closed     bool
	wanted     wantedSet
	expander   *expander

	mu      sync.Mutex // for a moment only
	running map[string]*running
	runs    form.Runs // of snapshots
	// wildcards are those that are shown, see expander.show.
	wildcards []TargetStatus
}

// running is a started target.
type running struct {
	target *target.Target
	cancel context.CancelFunc
	done   chan struct{}
}

// New prepares a Manager. It does not contact the API server; bad credentials
// files and the like are errors here.
func New(options Options) (*Manager, error) {
	if options.Cluster == "" || options.Log == nil || options.Reject == nil || options.Kubernetes == nil || len(options.RedactionKey) < minKey {
		return nil, fmt.Errorf("new manager: Cluster, Kubernetes, Log, Reject and a RedactionKey of at least %d bytes are required", minKey)
	}
	if log, ok := options.Log.(interface{ Cluster() string }); ok && log.Cluster() != options.Cluster {
		return nil, fmt.Errorf("new manager: Cluster is %q, and the journal is that of cluster %q; use one name", options.Cluster, log.Cluster())
	}
	if options.MaxDelay < 0 || options.MaxDelay > LongestDelay {
		return nil, fmt.Errorf("new manager: MaxDelay is %s: want 0 to %s", options.MaxDelay, LongestDelay)
	}
	options.Logger = cmp.Or(options.Logger, slog.Default())
	c, err := kube.NewClients(options.Kubernetes, options.Logger)
	if err != nil {
		return nil, fmt.Errorf("new manager: %w", err)
	}
	c.MaxDelay = options.MaxDelay
	s, err := catalog.NewWatcher(c, options.Logger)
	if err != nil {
		return nil, fmt.Errorf("new manager: %w", err)
	}
	n, err := selection.NewNamespaces(c, options.Logger)
	if err != nil {
		return nil, fmt.Errorf("new manager: %w", err)
	}
	m := &Manager{
		options: options, clients: c, redactor: frame.NewRedactor(options.RedactionKey, options.PlainAnnotations...), served: s, namespaces: n, owners: emit.NewOwnerFinder(c, options.Logger), timing: target.DefaultTiming(), limits: target.DefaultLimits(),
		openings: kube.NewOpenings(c.Pace), running: make(map[string]*running),
	}
	if options.AuditEvery != 0 {
		m.timing.AuditEvery = max(options.AuditEvery, 0)
	}
	m.expander = newExpander(m)
	return m, nil
}

// Check returns the error that [Manager.Apply] has for a wanted set that is not
// valid. It changes nothing.
func (m *Manager) Check(wanted []Resource) error {
	if _, err := newWantedSet(wanted, 0); err != nil {
		return fmt.Errorf("apply resources: %w", err)
	}
	return nil
}

// Apply makes the running targets those of the wanted set: targets that are no longer wanted end, new
// ones start, unchanged ones are not touched; one whose version, mode, namespaces, selectors or schedule
// changed is ended and started. A changed Keep, Omit, Redact, FieldManager, OwnerChain, change filter or
// Changes holds for what a target reads from then on, and touches nothing else. A started target
// continues at its checkpoint, and begins with a snapshot if it has none.
//
// Apply blocks until what was to end has ended. It does not wait for anything to sync, nor for
// wildcards, whose targets start once discovery has said what they match, and from then on start and
// end as resources come and go. If the wanted set is not valid, nothing changes and the error joins a
// [ResourceError] for every fault.
func (m *Manager) Apply(wanted []Resource) error {
	m.converging.Lock()
	defer m.converging.Unlock()
	set, err := newWantedSet(wanted, m.options.MaxWatches)
	if err != nil {
		return fmt.Errorf("apply resources: %w", err)
	}
	if m.closed {
		return errors.New("apply resources: manager is closed")
	}
	m.wanted = set
	if len(wanted) > 0 {
		m.served.Start(m.timing.Timing)
	}
	m.converge(&expansion{targets: m.stillWanted(set)})
	m.expander.apply(set)
	return nil
}

// Expanded reports whether it is known which resources are watched: Apply was called, and
// every wildcard was held against what the API server serves. It may wait for an Apply.
func (m *Manager) Expanded() bool {
	m.converging.Lock()
	defer m.converging.Unlock()
	unready := func(p catalog.Pattern) bool { return !m.expander.ready[p.ID()] }
	return m.wanted.maxWatches > 0 && !slices.ContainsFunc(m.wanted.Patterns, unready)
}

// stillWanted are the targets of entries that are not wildcards, and those that run
// and that a wildcard goes on to match.
func (m *Manager) stillWanted(set wantedSet) map[string]target.Spec {
	targets := maps.Clone(set.explicit)
	chosen := make(map[schema.GroupResource]catalog.Choice)
	if c := m.expander.catalog; c != nil {
		for _, one := range set.Choose(c) {
			chosen[one.Resource] = one
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for name, r := range m.running {
		one := r.target.Spec.GroupResource()
		owner, ok := set.Owner(one)
		if c := m.expander.catalog; ok && c != nil {
			if _, served := c.Find(set.Patterns[owner.Pattern].Version, one); served {
				owner, ok = chosen[one]
			}
		}
		if !ok {
			continue
		}
		for _, s := range set.as(owner) {
			if s.Watches(r.target.Spec) {
				targets[name] = s
			}
		}
	}
	return targets
}

// converge makes the running targets those of an expansion. The caller holds converging.
func (m *Manager) converge(p *expansion) (begun, ended int) {
	ended = m.end(func(r *running) bool { return !p.targets[r.target.Name].Watches(r.target.Spec) })
	return m.begin(p), ended
}

// begin starts the targets that are not running, in the order of their names, and has
// the others take what needs no start.
func (m *Manager) begin(p *expansion) (begun int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, name := range slices.Sorted(maps.Keys(p.targets)) {
		s := p.targets[name]
		if r, ok := m.running[name]; ok {
			r.target.Writer.Reshape(s.Shown(), m.redactor)
			continue
		}
		m.running[name] = m.start(s, p.later[name], p.found[name])
		begun++
	}
	return begun
}

// gone reports whether a target has nothing more to tell: its resource is not served
// any more, and the ends of its objects are in the log.
func (m *Manager) gone(name string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	r, ok := m.running[name]
	return ok && r.target.Status.Gone.Load()
}

// end ends the targets that match and waits until they have ended. They are shown
// until then. It returns how many.
func (m *Manager) end(match func(*running) bool) int {
	m.mu.Lock()
	ending := make(map[string]*running)
	for name, r := range m.running {
		if match(r) {
			r.cancel()
			ending[name] = r
		}
	}
	m.mu.Unlock()
	for _, r := range ending {
		<-r.done
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for name := range ending {
		delete(m.running, name)
	}
	return len(ending)
}

// start starts a target. The objects that the first list of a later one holds are added.
// Found is what is known of its resource, nil if nothing is.
func (m *Manager) start(s target.Spec, later bool, found *catalog.Resolved) *running {
	ctx, cancel := context.WithCancel(context.Background())
	r := &running{target: m.newTarget(s), cancel: cancel, done: make(chan struct{})}
	r.target.Discovery.Offered = found
	if later {
		r.target.Discovery.FirstOp = event.Added
	}
	go func() {
		defer close(r.done)
		r.target.Run(ctx)
		cancel()
	}()
	return r
}

// sorted returns the running targets, sorted by name. The caller holds mu.
func (m *Manager) sorted() []*running {
	return slices.SortedFunc(maps.Values(m.running), func(a, b *running) int { return strings.Compare(a.target.Name, b.target.Name) })
}

// Targets describes every target now, sorted by name. A wildcard is among them, under
// its own pattern, until it has been expanded, while it matches nothing, and while the
// limit of watches keeps some of its resources from being watched.
func (m *Manager) Targets() []TargetStatus {
	m.mu.Lock()
	all := make([]TargetStatus, 0, len(m.running))
	for _, r := range m.running {
		all = append(all, statusOf(r.target.Spec, r.target.Status))
	}
	for _, w := range m.wildcards {
		w.Beat, w.Events = time.Now(), maps.Clone(w.Events)
		all = append(all, w)
	}
	m.mu.Unlock()
	slices.SortFunc(all, func(a, b TargetStatus) int { return strings.Compare(a.Name, b.Name) })
	return all
}

// SetMaxWatches replaces [Options.MaxWatches] from the next [Manager.Apply] on; 0 is
// [DefaultMaxWatches].
func (m *Manager) SetMaxWatches(most int) {
	m.converging.Lock()
	defer m.converging.Unlock()
	m.options.MaxWatches = most
}

// Close stops every target and waits until all have stopped. Their events stay in the log.
func (m *Manager) Close() {
	m.converging.Lock()
	m.closed = true
	m.converging.Unlock()
	m.expander.close()
	m.converging.Lock()
	defer m.converging.Unlock()
	m.end(func(*running) bool { return true })
	m.served.Close()
	m.clients.Close()
}

// newTarget returns the target of a spec.
func (m *Manager) newTarget(s target.Spec) *target.Target {
	o := &m.options
	return target.New(target.Options{
		Spec: s, Name: s.Name(), Cluster: o.Cluster, Log: o.Log,
		StoreRejected: func(ctx context.Context, bad *frame.Malformed) error { return o.Reject(ctx, rejected(s.Name(), bad)) },
		Clients:       m.clients, Owners: m.owners, Namespaces: m.namespaces, Timing: m.timing, Limits: m.limits,
		Logger: o.Logger.With("target", s.Name()), Redactor: m.redactor, Served: m.served, Openings: m.openings, Runs: &m.runs,
	})
}

// rejected is an object that cannot be emitted, for [Options.Reject].
func rejected(target string, bad *frame.Malformed) Rejected {
	return Rejected{
		Target: target, Namespace: bad.Namespace, Name: bad.Name, UID: bad.UID,
		ResourceVersion: bad.ResourceVersion, Reason: display.Reason(bad.Reason), Size: bad.Size, Raw: bad.Raw,
	}
}

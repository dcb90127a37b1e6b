package selection

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/informd/informd/pkg/dynwatch/internal/kube"
	"github.com/informd/informd/pkg/dynwatch/internal/listwatch"
	"github.com/informd/informd/pkg/dynwatch/internal/metadatawatch"
)

// Namespaces follows the Namespaces of the cluster, metadata only: one watch for
// all targets that select by their labels, open while there is such a target. Its
// methods may be called concurrently.
type Namespaces struct {
	watch  *metadatawatch.Watch
	logger *slog.Logger

	// turn is held while the watch is started and ended, which takes time.
	turn sync.Mutex
	stop func()

	mu    sync.Mutex // for a moment only
	users map[chan struct{}]Rule
	views map[Rule]*view
	// told is when all users were woken last.
	told time.Time
	// known is nil until the first list; at is the revision that it is of.
	known map[string]namespace
	at    uint64
	// err is why the Namespaces are not followed at the moment.
	err error
}

// namespace is what is known of one: its labels at a revision.
type namespace struct {
	labels labels.Set
	rv     uint64
}

// NamespaceResource is the resource of the Namespaces.
func NamespaceResource() schema.GroupVersionResource {
	return schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}
}

// NewNamespaces makes what follows them; it does not begin.
func NewNamespaces(c *kube.Clients, logger *slog.Logger) (*Namespaces, error) {
	n := &Namespaces{logger: logger, users: make(map[chan struct{}]Rule), views: make(map[Rule]*view)}
	var err error
	n.watch, err = metadatawatch.New(c, NamespaceResource(), "Namespace", n)
	return n, err
}

// join begins to look at a view, and starts the watch if it does not run. The channel
// gets a value whenever there may be something new; the user leaves with it.
func (n *Namespaces) join(tm listwatch.Timing, rule Rule) chan struct{} {
	n.turn.Lock()
	defer n.turn.Unlock()
	changed := make(chan struct{}, 1)
	changed <- struct{}{}
	n.mu.Lock()
	n.users[changed] = rule
	n.viewOf(rule).users[changed] = struct{}{}
	first := len(n.users) == 1
	n.mu.Unlock()
	if first {
		ctx, cancel := context.WithCancel(context.Background())
		var loop sync.WaitGroup
		n.watch.SetTiming(tm)
		loop.Go(func() { n.watch.Run(ctx) })
		n.stop = func() {
			cancel()
			loop.Wait()
		}
	}
	return changed
}

// viewOf returns a view, which it makes if there is none. The caller holds mu.
func (n *Namespaces) viewOf(rule Rule) *view {
	v := n.views[rule]
	if v == nil {
		v = newView(rule)
		v.relist(n.known, 0, n.at)
		n.views[rule] = v
	}
	return v
}

// leave ends the watch if nobody else needs it, and waits until it has ended.
func (n *Namespaces) leave(changed chan struct{}) {
	n.turn.Lock()
	defer n.turn.Unlock()
	n.mu.Lock()
	rule := n.users[changed]
	delete(n.users, changed)
	if v := n.views[rule]; v != nil {
		if delete(v.users, changed); len(v.users) == 0 {
			delete(n.views, rule)
		}
	}
	last := len(n.users) == 0
	n.mu.Unlock()
	if last {
		n.stop()
		n.mu.Lock()
		n.known, n.at, n.err = nil, 0, nil
		n.mu.Unlock()
		n.watch.Reset()
	}
}

// Matching returns the namespaces that a rule matches now, sorted. It returns nil if there
// has been no list yet, and why.
func (n *Namespaces) Matching(rule Rule) (names []string, err error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.known == nil {
		return nil, n.err
	}
	m := rule.matcher()
	for name, one := range n.known {
		if m.matches(name, one.labels) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names, nil
}

// trouble says why the Namespaces are not followed at the moment, nil if they are.
func (n *Namespaces) trouble() error {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.err
}

// List lists the Namespaces once, without a watch.
func (n *Namespaces) List(ctx context.Context) error { return n.watch.List(ctx) }

// Failed shows why the Namespaces are not followed.
func (n *Namespaces) Failed(err error) bool {
	n.mu.Lock()
	first := n.err == nil
	n.err = fmt.Errorf("namespaces are unreadable: %w", err)
	n.tell()
	n.mu.Unlock()
	if first {
		n.logger.Warn("namespaces unreadable; namespace selectors keep their last result", "err", err)
	}
	return false
}

// Opened shows that the Namespaces are followed.
func (n *Namespaces) Opened() {
	n.mu.Lock()
	failed := n.err != nil
	if failed {
		n.err = nil
		n.tell()
	}
	n.mu.Unlock()
	if failed {
		n.logger.Info("namespaces readable again")
	}
}

// tellEvery is how often all users are woken at least, so that their marks follow the
// revision of the Namespaces.
const tellEvery = time.Minute

// tell wakes all users. The caller holds mu.
func (n *Namespaces) tell() {
	n.told = time.Now()
	for changed := range n.users {
		wake(changed)
	}
}

func wake(changed chan struct{}) {
	select {
	case changed <- struct{}{}:
	default: // it has yet to look anyway
	}
}

// Watched takes a frame of the Namespaces.
func (n *Namespaces) Watched(typ watch.EventType, o *metadatawatch.Object) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.at = max(n.at, o.RV)
	switch typ {
	case watch.Bookmark:
	case watch.Deleted:
		delete(n.known, o.Name)
	default:
		n.keep(n.known, o)
	}
	for _, v := range n.views {
		one, exists := n.known[o.Name]
		if typ != watch.Bookmark && v.update(o.Name, exists && v.matches(o.Name, one.labels), Flip{o.RV, max(o.RV, 1) - 1}) {
			for changed := range v.users {
				wake(changed)
			}
		}
	}
	if typ == watch.Bookmark || time.Since(n.told) >= tellEvery {
		n.tell()
	}
}

// Listed takes a list of the Namespaces.
func (n *Namespaces) Listed(objects []metadatawatch.Object, rv uint64, restored bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	after := n.at // what has changed since did so at a revision that is not known
	all := make(map[string]namespace, len(objects))
	for i := range objects {
		n.keep(all, &objects[i])
	}
	n.known, n.at = all, rv
	for _, v := range n.views {
		v.relist(all, after, rv)
		if restored {
			v.forget()
		}
	}
	n.tell()
}

// keep notes a namespace's labels in all. One that cannot be read stays as it was.
func (n *Namespaces) keep(all map[string]namespace, o *metadatawatch.Object) {
	if o.Bad == nil {
		all[o.Name] = namespace{o.Labels, o.RV}
		return
	}
	if was, known := n.known[o.Name]; known {
		all[o.Name] = was
	}
	n.logger.Warn("namespace labels unreadable; keeping the last labels", "namespace", o.Name, "reason", o.Bad.Reason)
}

// revision returns the newest revision of the Namespaces' store.
func (n *Namespaces) revision(ctx context.Context) (uint64, error) {
	rv, err := n.watch.Source.Revision(ctx)
	if err != nil {
		return 0, fmt.Errorf("namespaces: %w", err)
	}
	return rv, nil
}

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

	"github.com/informd/informd/internal/display"
	"github.com/informd/informd/pkg/dynwatch/internal/kube"
	"github.com/informd/informd/pkg/dynwatch/internal/listwatch"
)

// Namespaces follows the Namespaces of the cluster, metadata only: one watch for
// all targets that select by their labels, open while there is such a target. Its
// methods may be called concurrently.
type Namespaces struct {
	watch  *listwatch.MetadataWatch
	logger *slog.Logger

	// turn is held while the watch is started and ended, which takes time.
	turn sync.Mutex
	stop func()

	mu    sync.RWMutex // for a moment only
	views map[Rule]*view
	// woken is when all users were woken last.
	woken time.Time
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
	n := &Namespaces{logger: logger, views: make(map[Rule]*view)}
	var err error
	n.watch, err = listwatch.NewMetadataWatch(c, NamespaceResource(), "Namespace", n)
	if err == nil {
		n.watch.Confirm = n.confirm
	}
	return n, err
}

// join has a target look at the view of its rule, and starts the watch if it does not run.
func (n *Namespaces) join(tm listwatch.Timing, rule Rule, l *labelled) {
	n.turn.Lock()
	defer n.turn.Unlock()
	n.mu.Lock()
	first := len(n.views) == 0
	v := n.views[rule]
	if v == nil {
		v = newView(rule)
		v.relist(n.known, 0, n.at, false)
		n.views[rule] = v
	}
	v.users[l] = struct{}{}
	l.mu, l.view, l.pending, l.changed = &n.mu, v, make(map[string]Flip), make(chan struct{}, 1)
	l.wake()
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
}

// leave ends the watch if nobody else needs it, and waits until it has ended.
func (n *Namespaces) leave(rule Rule, l *labelled) {
	n.turn.Lock()
	defer n.turn.Unlock()
	n.mu.Lock()
	if delete(l.view.users, l); len(l.view.users) == 0 {
		delete(n.views, rule)
	}
	last := len(n.views) == 0
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
	n.woken = time.Now()
	for _, v := range n.views {
		for u := range v.users {
			u.wake()
		}
	}
}

// Watched takes a frame of the Namespaces.
func (n *Namespaces) Watched(typ watch.EventType, o *listwatch.MetadataObject) {
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
		if one, exists := n.known[o.Name]; typ != watch.Bookmark {
			v.update(o.Name, exists && v.matches(o.Name, one.labels), Flip{o.RV, max(o.RV, 1) - 1})
		}
	}
	if typ == watch.Bookmark || time.Since(n.woken) >= tellEvery {
		n.tell()
	}
}

// confirming is how many namespaces are confirmed at a time: thousands may vanish at once, and no Namespace is followed
// meanwhile. The other half of the places for look-ups is for the targets.
const confirming = kube.PaceWidth / 2

// confirm protects against a wrong watch cache, whose list lacks namespaces that exist: all objects of
// a namespace that no longer matches leave. So it asks etcd by name about each namespace that would no
// longer match by the list. It returns the list with the answers of etcd behind it: the last entry of a
// name counts.
func (n *Namespaces) confirm(
	ctx context.Context, all []listwatch.MetadataObject, rv uint64,
) (_ []listwatch.MetadataObject, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	names := make(chan string)
	var answers sync.Mutex
	var askers sync.WaitGroup
	for range confirming {
		askers.Go(func() {
			for name := range names {
				o, exists, failed := n.watch.LookAt(ctx, name, rv)
				answers.Lock()
				if failed != nil && err == nil {
					err = failed
					cancel() // the other ones are not needed any more
				}
				if exists {
					all = append(all, o)
				}
				answers.Unlock()
			}
		})
	}
	for name := range n.unmatched(all) {
		names <- name
	}
	close(names)
	askers.Wait()
	if err != nil {
		return nil, err
	}
	return all, nil
}

// unmatched returns the namespaces that match now, and would no longer match by the list. A namespace
// whose labels cannot be read keeps its last labels, and is none of them.
func (n *Namespaces) unmatched(all []listwatch.MetadataObject) map[string]struct{} {
	listed := make(map[string]*listwatch.MetadataObject, len(all))
	for i := range all {
		listed[all[i].Name] = &all[i]
	}
	names := make(map[string]struct{})
	n.mu.RLock()
	defer n.mu.RUnlock()
	for _, v := range n.views {
		for name := range v.names {
			if o := listed[name]; o == nil || o.Bad == nil && !v.matches(name, o.Labels) {
				names[name] = struct{}{}
			}
		}
	}
	return names
}

// Listed takes a list of the Namespaces.
func (n *Namespaces) Listed(objects []listwatch.MetadataObject, rv uint64, restored bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	after := n.at // a namespace that has changed since then did so at an unknown revision
	all := make(map[string]namespace, len(objects))
	for i := range objects {
		n.keep(all, &objects[i])
	}
	n.known, n.at = all, rv
	for _, v := range n.views {
		v.relist(all, after, rv, restored)
	}
	n.tell()
}

// keep notes a namespace's labels in all. One that cannot be read stays as it was.
func (n *Namespaces) keep(all map[string]namespace, o *listwatch.MetadataObject) {
	if o.Bad == nil {
		all[o.Name] = namespace{o.Labels, o.RV}
		return
	}
	if was, known := n.known[o.Name]; known {
		all[o.Name] = was
	}
	n.logger.Warn("namespace labels unreadable; keeping the last labels",
		"namespace", display.Reason(o.Name), "reason", display.Reason(o.Bad.Reason))
}

// Exists asks etcd whether a Namespace exists, with a list of that one name. It returns the revision of the answer.
func (n *Namespaces) Exists(ctx context.Context, name string) (exists bool, rv uint64, err error) {
	_, exists, rv, err = n.watch.Source.Look(ctx, "", name, 0)
	if err == nil && rv == 0 {
		err = fmt.Errorf("list namespaces: %w", listwatch.ErrInexact)
	}
	return exists, rv, err
}

// revision returns the newest revision of the Namespaces' store.
func (n *Namespaces) revision(ctx context.Context) (uint64, error) {
	rv, err := n.watch.Source.Revision(ctx)
	if err != nil {
		return 0, fmt.Errorf("namespaces: %w", err)
	}
	return rv, nil
}

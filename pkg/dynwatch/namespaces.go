package dynwatch

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/informd/informd/pkg/dynwatch/internal/kube"
	"github.com/informd/informd/pkg/dynwatch/internal/metadatawatch"
)

// namespaces follows the Namespaces of the cluster, metadata only: one watch for
// all targets that select by their labels, open while there is such a target. Its
// methods may be called concurrently.
type namespaces struct {
	watch  *metadatawatch.Watch
	logger *slog.Logger

	// turn is held while the watch is started and ended, which takes time.
	turn sync.Mutex
	stop func()
	// backoffCap is the longest pause after a failure.
	backoffCap time.Duration

	mu    sync.Mutex // for a moment only
	users map[chan struct{}]viewKey
	views map[viewKey]*namespaceView
	// told is when all users were woken last.
	told time.Time
	// known is nil until the first list; at is the revision that it is of.
	known map[string]*namespace
	at    uint64
	// err is why the Namespaces are not followed at the moment.
	err error
}

// keptLabels is how many sets of labels are remembered of a namespace.
const keptLabels = 8

// namespace is what is known of one.
type namespace struct {
	labels labels.Set
	turned turned
	// before is what it was before, nil if that is not known.
	before *namespace
}

// turned is when a namespace came to be what it is: at revision since at the latest,
// and not yet at revision after, which is 0 if that is not known.
type turned struct{ since, after uint64 }

// matched says when a namespace came to match.
func (n *namespace) matched(selector labels.Selector) turned {
	for n.before != nil && selector.Matches(n.before.labels) {
		n = n.before
	}
	return n.turned
}

// cut forgets what lies further back.
func (n *namespace) cut(kept int) *namespace {
	short := *n
	switch {
	case n.before != nil && kept > 1:
		short.before = n.before.cut(kept - 1)
	case n.before != nil:
		short.before, short.turned.after = nil, 0
	}
	return &short
}

func namespaceResource() schema.GroupVersionResource {
	return schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}
}

func newNamespaces(c *kube.Clients, logger *slog.Logger) (*namespaces, error) {
	n := &namespaces{logger: logger, users: make(map[chan struct{}]viewKey), views: make(map[viewKey]*namespaceView)}
	var err error
	n.watch, err = metadatawatch.New(c, namespaceResource(), "Namespace", n)
	return n, err
}

// join begins to look at a view, and starts the watch if it does not run. The channel
// gets a value whenever there may be something new; the user leaves with it.
func (n *namespaces) join(tm timing, key viewKey, selector labels.Selector, named func(string) bool) chan struct{} {
	n.turn.Lock()
	defer n.turn.Unlock()
	changed := make(chan struct{}, 1)
	changed <- struct{}{}
	n.mu.Lock()
	n.users[changed] = key
	n.view(key, selector, named).users[changed] = struct{}{}
	first := len(n.users) == 1
	n.mu.Unlock()
	if first {
		ctx, cancel := context.WithCancel(context.Background())
		n.backoffCap = tm.BackoffCap
		var loop sync.WaitGroup
		loop.Go(func() { n.watch.Run(ctx, tm.Timing) })
		n.stop = func() {
			cancel()
			loop.Wait()
		}
	}
	return changed
}

// view returns a view, which it makes if there is none. The caller holds mu.
func (n *namespaces) view(key viewKey, selector labels.Selector, named func(string) bool) *namespaceView {
	v := n.views[key]
	if v == nil {
		v = &namespaceView{selector: selector, named: named, users: make(map[chan struct{}]struct{})}
		if n.known != nil {
			v.relist(n.known)
		}
		n.views[key] = v
	}
	return v
}

// leave ends the watch if nobody else needs it, and waits until it has ended.
func (n *namespaces) leave(changed chan struct{}) {
	n.turn.Lock()
	defer n.turn.Unlock()
	n.mu.Lock()
	key := n.users[changed]
	delete(n.users, changed)
	if v := n.views[key]; v != nil {
		if delete(v.users, changed); len(v.users) == 0 {
			delete(n.views, key)
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

// matching returns the namespaces that a selector and a filter by name match, each
// with when it came to, and the revision that this is true of. It returns nil if
// there has been no list yet, and why.
func (n *namespaces) matching(selector labels.Selector, named func(string) bool) (map[string]turned, uint64, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.known == nil {
		return nil, 0, n.err
	}
	all := make(map[string]turned)
	for name, one := range n.known {
		if selector.Matches(one.labels) && named(name) {
			all[name] = one.matched(selector)
		}
	}
	return all, n.at, nil
}

// since returns the revision at which a namespace came to be labelled as it is, or,
// of one that is gone, one at which it was.
func (n *namespaces) since(name string) uint64 {
	n.mu.Lock()
	defer n.mu.Unlock()
	if one, ok := n.known[name]; ok {
		return one.turned.since
	}
	return n.at
}

// trouble says why the Namespaces are not followed at the moment, nil if they are.
func (n *namespaces) trouble() error {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.err
}

// matchingAt returns the names that matched at an earlier revision.
func (n *namespaces) matchingAt(ctx context.Context, rv uint64, selector labels.Selector, named func(string) bool) (map[string]struct{}, error) {
	all := make(map[string]struct{})
	_, err := n.watch.ListAt(ctx, rv, func(o *metadatawatch.Object) {
		if o.Bad == nil && selector.Matches(o.Labels) && named(o.Name) {
			all[o.Name] = struct{}{}
		}
	})
	if err != nil {
		return nil, fmt.Errorf("namespaces: %w", err)
	}
	return all, nil
}

// Failed shows why the Namespaces are not followed.
func (n *namespaces) Failed(err error) (least, most time.Duration) {
	n.mu.Lock()
	first := n.err == nil
	n.err = fmt.Errorf("namespaces are unreadable: %w", err)
	n.mu.Unlock()
	n.tell()
	if first {
		n.logger.Warn("namespaces unreadable; namespace selectors keep their last result", "err", err)
	}
	return 0, n.backoffCap
}

func (n *namespaces) Opened() {
	n.mu.Lock()
	failed := n.err != nil
	n.err = nil
	n.mu.Unlock()
	if failed {
		n.logger.Info("namespaces readable again")
		n.tell()
	}
}

// tellEvery is how often all users are woken at least, so that their marks follow the
// revision of the Namespaces.
const tellEvery = time.Minute

// tell wakes all users.
func (n *namespaces) tell() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.tellAll()
}

// tellAll is tell for a caller that holds mu.
func (n *namespaces) tellAll() {
	n.told = time.Now()
	for changed := range n.users {
		wake(changed)
	}
}

// tellUsers wakes the users of a view. The caller holds mu.
func (v *namespaceView) tellUsers() {
	for changed := range v.users {
		wake(changed)
	}
}

func wake(changed chan struct{}) {
	select {
	case changed <- struct{}{}:
	default: // it has yet to look anyway
	}
}

func (n *namespaces) Watched(typ watch.EventType, o *metadatawatch.Object) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.at = max(n.at, o.RV)
	after := max(o.RV, 1) - 1
	switch typ {
	case watch.Bookmark:
	case watch.Deleted:
		delete(n.known, o.Name)
	default:
		n.keep(n.known, o, after)
	}
	for _, v := range n.views {
		if typ != watch.Bookmark && v.update(o.Name, n.known[o.Name]) {
			v.tellUsers()
		}
	}
	if typ == watch.Bookmark || time.Since(n.told) >= tellEvery {
		n.tellAll()
	}
}

func (n *namespaces) Listed(objects []metadatawatch.Object, rv uint64, restored bool) {
	n.mu.Lock()
	after := n.at // what turned since did so at a revision that nobody has seen
	if restored {
		after = 0
	}
	all := make(map[string]*namespace, len(objects))
	for i := range objects {
		n.keep(all, &objects[i], after)
	}
	n.known, n.at = all, rv
	for _, v := range n.views {
		v.relist(n.known)
	}
	n.tellAll()
	n.mu.Unlock()
}

// keep notes a namespace's labels in all, which it had not yet at revision after, if
// they are other ones. One that cannot be read stays as it was.
func (n *namespaces) keep(all map[string]*namespace, o *metadatawatch.Object, after uint64) {
	was, known := n.known[o.Name]
	switch {
	case o.Bad == nil && (!known || !maps.Equal(was.labels, o.Labels)):
		one := &namespace{labels: o.Labels, turned: turned{since: o.RV, after: after}, before: was}
		all[o.Name] = one.cut(keptLabels)
	case known:
		all[o.Name] = was
	}
	if o.Bad != nil {
		n.logger.Warn("namespace labels unreadable; keeping the last labels", "namespace", o.Name, "reason", o.Bad.Reason)
	}
}

package selection

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"

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
	turned Turned
	// before is what it was before, nil if that is not known.
	before *namespace
}

// Turned is when a namespace came to be what it is: at revision since at the latest,
// and not yet at revision after, which is 0 if that is not known.
type Turned struct{ since, after uint64 }

// matched says when a namespace came to match.
func (n *namespace) matched(selector labels.Selector) Turned {
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
		v = &view{matcher: rule.matcher(), users: make(map[chan struct{}]struct{})}
		if n.known != nil {
			v.relist(n.known)
		}
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

// Since returns the revision at which a namespace came to be labelled as it is, or,
// of one that is gone, one at which it was.
func (n *Namespaces) Since(name string) uint64 {
	n.mu.Lock()
	defer n.mu.Unlock()
	if one, ok := n.known[name]; ok {
		return one.turned.since
	}
	return n.at
}

// revisionRead returns the revision up to which the Namespaces were read.
func (n *Namespaces) revisionRead() uint64 {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.at
}

// trouble says why the Namespaces are not followed at the moment, nil if they are.
func (n *Namespaces) trouble() error {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.err
}

// matchingAt returns the names that matched at an earlier revision.
func (n *Namespaces) matchingAt(ctx context.Context, rv uint64, rule Rule) (map[string]struct{}, error) {
	m := rule.matcher()
	all := make(map[string]struct{})
	_, err := n.watch.ListAt(ctx, rv, func(o *metadatawatch.Object) {
		if o.Bad == nil && m.matches(o.Name, o.Labels) {
			all[o.Name] = struct{}{}
		}
	})
	if err != nil {
		return nil, fmt.Errorf("namespaces: %w", err)
	}
	return all, nil
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
	after := n.at // what turned since did so at a revision that nobody has seen
	if restored {
		after = 0
	}
	all := make(map[string]*namespace, len(objects))
	for i := range objects {
		n.keep(all, &objects[i], after)
	}
	if restored {
		forgetTurns(all, objects)
	}
	n.known, n.at = all, rv
	for _, v := range n.views {
		v.relist(n.known)
	}
	n.tell()
	n.mu.Unlock()
}

// forgetTurns forgets when namespaces came to be what they are: revisions from before a rollback
// do not compare with those of frames.
func forgetTurns(all map[string]*namespace, objects []metadatawatch.Object) {
	for i := range objects {
		if one := all[objects[i].Name]; one != nil {
			all[objects[i].Name] = &namespace{labels: one.labels, turned: Turned{since: objects[i].RV}}
		}
	}
}

// keep notes a namespace's labels in all, which it had not yet at revision after, if
// they are other ones. One that cannot be read stays as it was.
func (n *Namespaces) keep(all map[string]*namespace, o *metadatawatch.Object, after uint64) {
	was, known := n.known[o.Name]
	switch {
	case o.Bad == nil && (!known || !maps.Equal(was.labels, o.Labels)):
		one := &namespace{labels: o.Labels, turned: Turned{since: o.RV, after: after}, before: was}
		all[o.Name] = one.cut(keptLabels)
	case known:
		all[o.Name] = was
	}
	if o.Bad != nil {
		n.logger.Warn("namespace labels unreadable; keeping the last labels", "namespace", o.Name, "reason", o.Bad.Reason)
	}
}

// revision returns the newest revision of the Namespaces' store.
func (n *Namespaces) revision(ctx context.Context) (uint64, error) {
	rv, err := n.watch.Source.Revision(ctx)
	if err != nil {
		return 0, fmt.Errorf("namespaces: %w", err)
	}
	return rv, nil
}

// Exists asks etcd whether a Namespace exists, with a list of that one name, or with a get
// where lists are forbidden. It returns the revision of the answer, 0 if that has none.
func (n *Namespaces) Exists(ctx context.Context, client rest.Interface, name string) (exists bool, rv uint64, err error) {
	_, exists, rv, err = n.watch.Source.Look(ctx, "", name, 0)
	if err == nil && rv == 0 {
		return false, 0, fmt.Errorf("list namespaces: %w", listwatch.ErrInexact)
	}
	if !apierrors.IsForbidden(err) {
		return exists, rv, err
	}
	exists, err = getNamespace(ctx, client, name)
	return exists, 0, err
}

// getNamespace reads a Namespace. A 404 counts only as a Status about that Namespace.
func getNamespace(ctx context.Context, client rest.Interface, name string) (exists bool, err error) {
	g := kube.NewGuard(ctx)
	defer g.Close()
	body, err := client.Get().MaxRetries(0).AbsPath("/api/v1/namespaces", name).Do(g.Context).Raw()
	switch {
	case err != nil && apierrors.IsNotFound(err) && deniesNamespace(body, name):
		return false, nil
	case err != nil:
		return false, fmt.Errorf("get namespace %s: %w", name, g.Explain(err))
	}
	var found metav1.PartialObjectMetadata
	if err := json.Unmarshal(body, &found); err != nil {
		return false, fmt.Errorf("get namespace %s: %w", name, err)
	}
	if found.Kind != "Namespace" || found.Name != name {
		return false, fmt.Errorf("get namespace %s: the answer is %s %q", name, found.Kind, found.Name)
	}
	return true, nil
}

// deniesNamespace reports whether the body of a 404 is a Status about this Namespace.
func deniesNamespace(body []byte, name string) bool {
	var s metav1.Status
	return json.Unmarshal(body, &s) == nil && s.Kind == "Status" && s.Reason == metav1.StatusReasonNotFound &&
		s.Details != nil && s.Details.Kind == "namespaces" && s.Details.Name == name
}

package dynwatch

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/metadata"
)

// namespaces follows the Namespaces of the cluster, metadata only: one watch for
// all targets that select by their labels, open while there is such a target. Its
// methods may be called concurrently.
type namespaces struct {
	client metadata.ResourceInterface
	logger *slog.Logger

	// turn is held while the watch is started and ended, which takes time.
	turn sync.Mutex
	stop func()

	mu    sync.Mutex // for a moment only
	users map[chan struct{}]struct{}
	// known is nil until the first list; at is the revision that it is of. Lapsed: no
	// watch can go on from there.
	known  map[string]namespace
	at     uint64
	lapsed bool
	// err is why the Namespaces are not followed at the moment.
	err error
}

// namespace is what is known of one. Since is the revision from which on it has had
// these labels, or a later one.
type namespace struct {
	labels labels.Set
	since  uint64
}

func namespaceResource() schema.GroupVersionResource {
	return schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}
}

func newNamespaces(c *clients, logger *slog.Logger) *namespaces {
	return &namespaces{
		client: c.metadata.Resource(namespaceResource()),
		logger: logger, users: make(map[chan struct{}]struct{}),
	}
}

// join starts the watch if nobody has yet. The channel gets a value whenever there
// may be something new; whoever joined leaves with it.
func (n *namespaces) join(tm timing) chan struct{} {
	n.turn.Lock()
	defer n.turn.Unlock()
	changed := make(chan struct{}, 1)
	changed <- struct{}{}
	n.mu.Lock()
	n.users[changed] = struct{}{}
	first := len(n.users) == 1
	n.mu.Unlock()
	if first {
		ctx, cancel := context.WithCancel(context.Background())
		var loop sync.WaitGroup
		loop.Go(func() { n.run(ctx, tm) })
		n.stop = func() {
			cancel()
			loop.Wait()
		}
	}
	return changed
}

// leave ends the watch if nobody else needs it, and waits until it has ended.
func (n *namespaces) leave(changed chan struct{}) {
	n.turn.Lock()
	defer n.turn.Unlock()
	n.mu.Lock()
	delete(n.users, changed)
	last := len(n.users) == 0
	n.mu.Unlock()
	if last {
		n.stop()
		n.mu.Lock()
		n.known, n.at, n.lapsed, n.err = nil, 0, false, nil
		n.mu.Unlock()
	}
}

// matching returns the namespaces that a selector and a filter by name match, each
// with the revision since which its labels are what they are, and the revision that
// this is true of. It returns nil if there has been no list yet, and why.
func (n *namespaces) matching(selector labels.Selector, named func(string) bool) (map[string]uint64, uint64, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.known == nil {
		return nil, 0, n.err
	}
	all := make(map[string]uint64)
	for name, one := range n.known {
		if selector.Matches(one.labels) && named(name) {
			all[name] = one.since
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
		return one.since
	}
	return n.at
}

// matchingAt returns the names that matched at an earlier revision.
func (n *namespaces) matchingAt(ctx context.Context, rv uint64, selector labels.Selector, named func(string) bool) (map[string]struct{}, error) {
	all := make(map[string]struct{})
	_, err := n.list(ctx, rv, selector.String(), func(m *metav1.PartialObjectMetadata) error {
		if named(m.Name) {
			all[m.Name] = struct{}{}
		}
		return nil
	})
	return all, err
}

// run follows the Namespaces until ctx ends.
func (n *namespaces) run(ctx context.Context, tm timing) {
	fresh := func() wait.Backoff {
		return wait.Backoff{Duration: tm.backoff, Factor: 2, Jitter: 0.5, Steps: 30, Cap: tm.backoffCap}
	}
	for pause := fresh(); ctx.Err() == nil; {
		opened, err := n.follow(ctx, tm)
		if opened {
			pause = fresh()
		}
		if err == nil || ctx.Err() != nil {
			continue
		}
		n.fail(err)
		timer := time.NewTimer(pause.Step())
		select {
		case <-ctx.Done():
		case <-timer.C:
		}
		timer.Stop()
	}
}

// fail shows why the Namespaces are not followed.
func (n *namespaces) fail(err error) {
	n.mu.Lock()
	first := n.err == nil
	n.err = err
	n.mu.Unlock()
	n.tell()
	if first {
		n.logger.Warn("namespaces are not followed at the moment: what entries select by their labels stays as it is", "err", err)
	}
}

// tell wakes those who have joined.
func (n *namespaces) tell() {
	n.mu.Lock()
	defer n.mu.Unlock()
	for changed := range n.users {
		select {
		case changed <- struct{}{}:
		default: // it has yet to look anyway
		}
	}
}

// follow lists the Namespaces, unless it can go on from where it was, and watches
// them until the watch ends for whatever reason.
func (n *namespaces) follow(ctx context.Context, tm timing) (opened bool, err error) {
	at, err := n.resume(ctx)
	if err != nil {
		return false, err
	}
	w, end, err := n.watch(ctx, at)
	if err == nil {
		n.mu.Lock()
		n.err = nil
		n.mu.Unlock()
		err = receiveAll(ctx, tm, w, n.handle)
		end()
		opened = true
	}
	if expired(err) || errors.Is(err, errSilent) {
		n.mu.Lock()
		n.lapsed = true
		n.mu.Unlock()
		return opened, nil
	}
	return opened, err
}

// resume returns the revision to watch from. It lists the Namespaces if there is
// none, or if their storage was restored from a copy.
func (n *namespaces) resume(ctx context.Context) (uint64, error) {
	n.mu.Lock()
	at, lapsed := n.at, n.lapsed
	n.mu.Unlock()
	if at == 0 || lapsed {
		return n.relist(ctx)
	}
	now, err := n.revision(ctx)
	if err == nil && now < at {
		return n.relist(ctx)
	}
	return at, err
}

func (n *namespaces) watch(ctx context.Context, at uint64) (w watch.Interface, end func(), err error) {
	g := newGuard(ctx)
	seconds := int64((minWatch + rand.N(minWatch)).Seconds()) //nolint:gosec // jitter, not a secret
	w, err = n.client.Watch(g.ctx, metav1.ListOptions{ResourceVersion: formatRV(at), AllowWatchBookmarks: true, TimeoutSeconds: &seconds})
	g.pause() // from here on silence is noticed elsewhere
	if err != nil {
		g.close()
		return nil, nil, fmt.Errorf("watch namespaces: %w", g.explain(err))
	}
	return w, func() { w.Stop(); g.close() }, nil
}

func (n *namespaces) handle(e watch.Event) error {
	if e.Type == watch.Error {
		return fmt.Errorf("watch namespaces: %w", apierrors.FromObject(e.Object))
	}
	m, ok := e.Object.(*metav1.PartialObjectMetadata)
	if !ok {
		return fmt.Errorf("watch namespaces: unexpected %T", e.Object)
	}
	rv, err := parseRV(m.ResourceVersion)
	if err != nil {
		return fmt.Errorf("watch namespaces: %w", err)
	}
	n.mu.Lock()
	n.at = max(n.at, rv)
	switch e.Type {
	case watch.Bookmark:
	case watch.Deleted:
		delete(n.known, m.Name)
	default:
		n.keep(n.known, m, rv)
	}
	n.mu.Unlock()
	n.tell()
	return nil
}

// keep notes a namespace's labels in all.
func (n *namespaces) keep(all map[string]namespace, m *metav1.PartialObjectMetadata, rv uint64) {
	one := namespace{labels: m.Labels, since: rv}
	if was, ok := n.known[m.Name]; ok && maps.Equal(was.labels, one.labels) {
		one.since = was.since
	}
	all[m.Name] = one
}

// relist reads all Namespaces anew.
func (n *namespaces) relist(ctx context.Context) (uint64, error) {
	all := make(map[string]namespace)
	at, err := n.list(ctx, 0, "", func(m *metav1.PartialObjectMetadata) error {
		rv, err := parseRV(m.ResourceVersion)
		if err != nil {
			return err
		}
		n.mu.Lock()
		defer n.mu.Unlock()
		n.keep(all, m, rv)
		return nil
	})
	if err != nil {
		return 0, err
	}
	n.mu.Lock()
	n.known, n.at, n.lapsed = all, at, false
	n.mu.Unlock()
	n.tell()
	return at, nil
}

// list reads the Namespaces at a revision, now if it is 0, page by page.
func (n *namespaces) list(ctx context.Context, rv uint64, selector string, item func(*metav1.PartialObjectMetadata) error) (uint64, error) {
	for next := ""; ; {
		o := page(rv, next)
		o.LabelSelector = selector
		l, err := n.request(ctx, o)
		if err != nil {
			return 0, fmt.Errorf("list namespaces: %w", err)
		}
		got, err := parseRV(l.ResourceVersion)
		if err != nil {
			return 0, fmt.Errorf("list namespaces: %w", err)
		}
		if rv != 0 && got != rv {
			return 0, fmt.Errorf("list namespaces at %d: %w", rv, errInexact)
		}
		for i := range l.Items {
			if err := item(&l.Items[i]); err != nil {
				return 0, fmt.Errorf("list namespaces: %w", err)
			}
		}
		if l.Continue == "" {
			return got, nil
		}
		next = l.Continue
	}
}

// revision returns the newest revision of the Namespaces in etcd.
func (n *namespaces) revision(ctx context.Context) (uint64, error) {
	l, err := n.request(ctx, metav1.ListOptions{Limit: 1})
	if err != nil {
		return 0, fmt.Errorf("list namespaces: %w", err)
	}
	return parseRV(l.ResourceVersion)
}

func (n *namespaces) request(ctx context.Context, o metav1.ListOptions) (*metav1.PartialObjectMetadataList, error) {
	g := newGuard(ctx)
	defer g.close()
	l, err := n.client.List(g.ctx, o)
	return l, g.explain(err)
}

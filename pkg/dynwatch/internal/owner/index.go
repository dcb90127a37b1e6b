package owner

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/informd/informd/pkg/dynwatch/internal/frame"
	"github.com/informd/informd/pkg/dynwatch/internal/kube"
	"github.com/informd/informd/pkg/dynwatch/internal/listwatch"
	"github.com/informd/informd/pkg/dynwatch/internal/metadatawatch"
	"github.com/informd/informd/pkg/event"
)

const (
	// listWait is how long after an index has begun its first list may be waited for, and how
	// long an event may wait for all of its chain.
	listWait = 5 * time.Second
	// lookWait bounds the look-ups for one event of what the indexes do not have.
	lookWait = time.Second
)

// index knows the controllers of the objects of one kind: one watch, metadata only,
// of which it keeps nothing else. An event never waits for it for long: what it cannot
// tell stays unknown.
type index struct {
	of      kind
	scope   string // the namespace, empty for all
	clients *kube.Clients
	logger  *slog.Logger
	timing  listwatch.Timing
	stop    context.CancelFunc
	began   time.Time
	// tried is closed when the first attempt to list has ended, in whatever way.
	tried chan struct{}
	// moved has the kind looked up in discovery again, and followed says that its watch was
	// open. Both belong to the loop.
	moved    context.CancelFunc
	followed bool

	mu sync.Mutex // for a moment only
	// source is nil until the kind is found.
	source *listwatch.Source
	rows   rows
	// err is why the objects are not followed at the moment.
	err error
	// quiet is until when nothing is looked up, after a failure.
	quiet time.Time
	pause wait.Backoff
}

func newIndex(of kind, scope string, c *kube.Clients, logger *slog.Logger, tm listwatch.Timing, stop context.CancelFunc) *index {
	x := &index{
		of: of, scope: scope, clients: c, timing: tm, stop: stop, began: time.Now(), tried: make(chan struct{}), rows: newRows(),
		logger: logger.With("kind", of.kind, "group", of.group),
	}
	if scope != "" {
		x.logger = x.logger.With("namespace", scope)
	}
	x.looked(nil)
	return x
}

// run keeps the index until ctx ends.
func (x *index) run(ctx context.Context) {
	fresh := kube.Backoff(x.timing.Backoff, x.timing.DeniedCap)
	pause := fresh
	for ctx.Err() == nil {
		w, err := x.find(ctx)
		if err == nil {
			following, moved := context.WithCancel(ctx)
			x.moved, x.followed = moved, false
			w.Run(following)
			moved()
			if x.followed {
				pause = fresh
			}
		} else if ctx.Err() == nil {
			x.Failed(err)
		}
		_ = kube.Sleep(ctx, pause.Step()) // the loop ends with ctx
	}
}

// find asks discovery which resource has the kind, and makes its watch.
func (x *index) find(ctx context.Context) (*metadatawatch.Watch, error) {
	r, err := resolve(ctx, x.clients.Discovery, x.of.group, x.of.kind)
	if err != nil {
		return nil, err
	}
	if r.Namespaced && x.scope != "" {
		r.Namespace = x.scope
		r.Name += "@" + r.Namespace
	}
	asking := frame.NewShape(frame.ShapeOptions{Owner: true}, nil)
	// Nothing but who they are and who controls them is wanted of any object.
	none := func(string) bool { return false }
	source, err := listwatch.New(r, listwatch.Options{
		Clients: x.clients, Options: frame.Options{Wants: none, Shape: func() *frame.Shape { return asking }}, Covers: none,
	})
	if err != nil {
		return nil, err
	}
	w := &metadatawatch.Watch{Source: source, User: x}
	w.SetTiming(x.timing)
	x.mu.Lock()
	x.source = source
	x.mu.Unlock()
	return w, nil
}

// resolve looks the resource of a kind up, in the version that the server prefers.
func resolve(ctx context.Context, d *kube.Discovery, group, kind string) (r listwatch.Resource, err error) {
	g := kube.NewGuard(ctx)
	defer g.Close()
	defer func() { err = g.Explain(err) }()
	found, version, err := kube.FindResource(g.Context, d, group, func(r *metav1.APIResource) bool {
		return r.Kind == kind && !strings.Contains(r.Name, "/") && slices.Contains(r.Verbs, "list") && slices.Contains(r.Verbs, "watch")
	})
	switch {
	case err != nil:
		return r, err
	case found == nil:
		return r, fmt.Errorf("%w: the API server has no kind %q in group %q that can be listed and watched", kube.ErrNotServed, kind, group)
	}
	return listwatch.Resource{
		GVR: schema.GroupVersionResource{Group: group, Version: version, Resource: found.Name}, Kind: kind, Namespaced: found.Namespaced,
		Name: event.GroupOrCore(group) + "/" + found.Name, MetadataOnly: true,
	}, nil
}

// above is [Finder.above] for a controller of the index's kind.
func (x *index) above(ctx context.Context, p *waitBudget, namespace string, of *frame.Owner) (*frame.Owner, bool) {
	x.await(ctx, p)
	x.mu.Lock()
	source := x.source
	if source != nil && !source.Resource.Namespaced {
		namespace = ""
	}
	above, known, decided := x.rows.get(rowKey(namespace, of.UID), time.Now())
	mayLook := source != nil && !useless(x.err) && !time.Now().Before(x.quiet)
	x.mu.Unlock()
	if decided || !mayLook {
		return above, known
	}
	left := min(p.looks, time.Until(p.until))
	if left <= 0 {
		return nil, false
	}
	began := time.Now()
	defer func() { p.looks -= time.Since(began) }()
	return x.lookUp(ctx, left, source, namespace, of)
}

// await waits for the first list, but not for long.
func (x *index) await(ctx context.Context, p *waitBudget) {
	select {
	case <-x.tried:
		return
	default:
	}
	timer := time.NewTimer(min(time.Until(x.began.Add(listWait)), time.Until(p.until)))
	defer timer.Stop()
	select {
	case <-x.tried:
	case <-timer.C:
	case <-ctx.Done():
	}
}

// lookUp reads an object that the watch has not brought, or not yet, in that time. What it finds is
// kept only for a while: if the object has ended since, nothing else would remove it.
func (x *index) lookUp(ctx context.Context, left time.Duration, s *listwatch.Source, namespace string, of *frame.Owner) (*frame.Owner, bool) {
	limited, cancel := context.WithTimeout(ctx, left)
	defer cancel()
	o, there, err := s.ObjectAt(limited, namespace, of.Name, 0)
	if _, bad := errors.AsType[*frame.Malformed](err); bad {
		there, err = false, nil
	}
	if ctx.Err() != nil {
		return nil, false
	}
	if left >= lookWait/2 || limited.Err() == nil { // the others had too little time to say anything
		x.looked(err)
	}
	if err != nil {
		return nil, false
	}
	there = there && o.UID == of.UID && o.Namespace == namespace
	x.mu.Lock()
	defer x.mu.Unlock()
	x.rows.keep(rowKey(namespace, of.UID), o.Owner, there, time.Now())
	if !there {
		return nil, false
	}
	return o.Owner, true
}

// looked notes how a look-up went. After one that failed there is none for a while: with
// an API server that does not answer, every event would wait.
func (x *index) looked(err error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if err == nil {
		x.pause = kube.Backoff(5*x.timing.Backoff, x.timing.DeniedCap)
		return
	}
	pause := x.pause.Step()
	x.quiet = time.Now().Add(pause)
	x.logger.Debug("owner lookup failed; retrying", "err", err, "pause", pause)
}

// useless reports whether the index is of what cannot be read.
func (x *index) useless() bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	return useless(x.err)
}

func useless(err error) bool {
	return errors.Is(err, kube.ErrNotServed) || apierrors.IsForbidden(err) || apierrors.IsNotFound(err)
}

// Failed notes that the objects are not followed. It belongs to the loop, as all that
// the watch calls.
func (x *index) Failed(err error) bool {
	x.mu.Lock()
	first := x.err == nil
	x.err = err
	x.mu.Unlock()
	if first {
		x.logger.Warn("owner kind unreadable; owner chains end there", "err", err)
	}
	x.closeTried()
	if apierrors.IsNotFound(err) && x.moved != nil {
		x.moved()
	}
	return useless(err)
}

func (x *index) closeTried() {
	select {
	case <-x.tried:
	default:
		close(x.tried)
	}
}

func (x *index) Opened() {
	x.followed = true
	x.mu.Lock()
	failed := x.err != nil
	x.err = nil
	x.mu.Unlock()
	if failed {
		x.logger.Info("owner kind readable again")
	}
}

func (x *index) Listed(all []metadatawatch.Object, _ uint64, _ bool) {
	now := time.Now()
	current := make(map[string]*frame.Owner, len(all))
	for i := range all {
		if all[i].Bad == nil {
			current[rowKey(all[i].Namespace, all[i].UID)] = all[i].Owner
		}
	}
	x.mu.Lock()
	x.rows.replace(current, now)
	x.mu.Unlock()
	x.closeTried()
}

func (x *index) Watched(typ watch.EventType, o *metadatawatch.Object) {
	if typ == watch.Bookmark || o.Bad != nil {
		return
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	if typ == watch.Deleted {
		x.rows.remove(rowKey(o.Namespace, o.UID), time.Now())
		return
	}
	x.rows.put(rowKey(o.Namespace, o.UID), o.Owner)
}

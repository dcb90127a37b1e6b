package dynwatch

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/informd/informd/pkg/dynwatch/internal/frame"
	"github.com/informd/informd/pkg/dynwatch/internal/kube"
	"github.com/informd/informd/pkg/dynwatch/internal/listwatch"
	"github.com/informd/informd/pkg/event"
)

// metadataWatch follows the few objects of a kind that says something about
// targets, metadata only: a list, and a watch from there on, which is resumed after a
// break. Another list follows only if the history since is gone. All of it belongs
// to the goroutine of run.
type metadataWatch struct {
	source *listwatch.Source
	user   metadataUser
	timing timing
	pause  wait.Backoff
	// cursor is the revision to watch from, 0 if a list must come first.
	cursor uint64
	// restored: the storage was restored from a copy since the last list.
	restored bool
	// unlabelled: the user has no need of labels.
	unlabelled bool
	// held has the revision of each object, by uid, nil if the user takes a list for what
	// it is: a list that is newer and shows an older one is of another history.
	held map[string]uint64
	// progress is how far the watches have come.
	progress progress
}

// metadataUser is told what a metadataWatch brings, all by one goroutine, which
// waits for it.
type metadataUser interface {
	// listed is called with all objects there are, at revision rv: at first, and
	// whenever what happened since the last call is not known. Restored: the
	// revisions before are of another history.
	listed(all []metadataObject, rv uint64, restored bool)
	// watched is called with what a frame brings; of a bookmark only the revision is
	// set.
	watched(typ watch.EventType, o *metadataObject)
	// opened is called when the watch is open.
	opened()
	// failed is called when it cannot be, and says between what the pause before the
	// next attempt must be.
	failed(err error) (least, most time.Duration)
}

// metadataObject is what is passed on of an object.
type metadataObject struct {
	namespace, name, uid string
	rv                   uint64
	labels               labels.Set
	// owner is the controller, if the source's shape asks for it.
	owner *frame.Owner
	// bad says that more than the rest of this could not be read.
	bad *frame.Malformed
}

func newMetadataWatch(c *kube.Clients, gvr schema.GroupVersionResource, kind string, user metadataUser) (*metadataWatch, error) {
	of := spec{group: gvr.Group, version: gvr.Version, resource: gvr.Resource, mode: Metadata}
	s, err := of.source(resolved{gvr: gvr, kind: kind}, c, nil, nil, nil)
	return &metadataWatch{source: s, user: user, held: make(map[string]uint64)}, err
}

// run follows the objects until ctx ends.
func (m *metadataWatch) run(ctx context.Context, tm timing) {
	m.timing = tm
	m.resetPause()
	for ctx.Err() == nil {
		err := m.follow(ctx)
		if err == nil || ctx.Err() != nil {
			continue
		}
		timer := time.NewTimer(m.fail(err))
		select {
		case <-ctx.Done():
		case <-timer.C:
		}
		timer.Stop()
	}
}

// fail returns for how long to pause. A history that is gone is no failure: a list
// follows.
func (m *metadataWatch) fail(err error) time.Duration {
	least, most := time.Duration(0), m.timing.backoffCap
	if !listwatch.Expired(err) {
		least, most = m.user.failed(err)
	}
	pause := max(least, min(most, m.pause.Step()))
	if wait, ok := kube.SuggestedDelay(err); ok {
		pause = max(pause, wait)
	}
	return pause
}

func (m *metadataWatch) resetPause() {
	m.pause = wait.Backoff{Duration: m.timing.backoff, Factor: 2, Jitter: 0.5, Steps: 30, Cap: m.timing.deniedCap}
}

// follow watches from the cursor until the watch ends for whatever reason. The
// error is nil if the next one should follow at once.
func (m *metadataWatch) follow(ctx context.Context) error {
	head := m.cursor
	if m.cursor != 0 {
		rv, err := m.source.Revision(ctx)
		if err != nil {
			return err
		}
		if err := m.source.Clients.Identity.Check(ctx); err != nil {
			return err
		}
		if head = rv; rv < m.cursor {
			m.cursor, m.restored = 0, true
		}
	}
	if m.cursor == 0 {
		if err := m.list(ctx); err != nil {
			return err
		}
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	w, err := m.source.Watch(ctx, m.cursor, m.progress.stuck > 0)
	if err == nil {
		defer w.Stop()
		err = m.source.Clients.Identity.Check(ctx)
	}
	if err == nil {
		m.progress.opened(m.cursor, head)
		m.user.opened()
		err = m.receive(ctx, w)
	}
	switch {
	case listwatch.Expired(err):
		m.cursor = 0
	case errors.Is(err, errStuck):
		if m.progress.stuck > 1 { // on two connections: a list follows
			m.cursor, m.progress = 0, progress{lenience: min(m.progress.lenience+1, maxLenience)}
		}
		return nil
	case errors.Is(err, errSilent):
		return nil
	}
	return err
}

// check decides what it means that the watch has not moved, as [target.watchProgress].
func (m *metadataWatch) check() error {
	p := &m.progress
	p.tick(m.cursor, m.timing.silence)
	switch {
	case !p.reached(m.cursor) && p.waited >= m.timing.reach<<p.lenience:
		p.waited = 0
		p.stuck++
		return errStuck
	case p.head == 0 && p.waited >= m.timing.silence:
		p.waited = 0
		return errSilent // the next watch asks for the revision first
	}
	return nil
}

func (m *metadataWatch) list(ctx context.Context) error {
	var all []metadataObject
	rv, err := m.listAt(ctx, 0, func(o *metadataObject) { all = append(all, *o) })
	if err != nil {
		return err
	}
	if err := m.source.Clients.Identity.Check(ctx); err != nil {
		return err
	}
	if m.contradicts(all, rv) {
		m.restored = true
	}
	m.hold(all)
	m.user.listed(all, rv, m.restored)
	m.cursor, m.restored = rv, false
	return nil
}

// contradicts is [index.contradicts] for a whole list.
func (m *metadataWatch) contradicts(all []metadataObject, at uint64) bool {
	return slices.ContainsFunc(all, func(o metadataObject) bool {
		known := m.held[o.uid]
		return o.rv != 0 && o.rv < known && known <= at
	})
}

// hold replaces the revisions that are held.
func (m *metadataWatch) hold(all []metadataObject) {
	if m.held == nil {
		return
	}
	m.held = make(map[string]uint64, len(all))
	for i := range all {
		m.held[all[i].uid] = all[i].rv
	}
}

// holdOne takes note of a frame.
func (m *metadataWatch) holdOne(typ watch.EventType, o *metadataObject) {
	switch {
	case m.held == nil || typ == watch.Bookmark:
	case typ == watch.Deleted:
		delete(m.held, o.uid)
	default:
		m.held[o.uid] = o.rv
	}
}

// listAt hands over all objects as they are at a revision, now if it is 0, and
// returns the revision. It may be called by any goroutine.
func (m *metadataWatch) listAt(ctx context.Context, rv uint64, item func(*metadataObject)) (uint64, error) {
	return m.source.List(ctx, &listwatch.Listing{At: rv}, m.source.Frames, func(o *frame.Object, bad *frame.Malformed) error {
		item(m.object(o, bad))
		return nil
	})
}

func (m *metadataWatch) object(o *frame.Object, bad *frame.Malformed) *metadataObject {
	if bad != nil {
		return &metadataObject{name: bad.Name, uid: bad.UID, rv: bad.ResourceVersion, bad: bad}
	}
	// The names of a watch share their memory with those of other objects.
	found := &metadataObject{namespace: strings.Clone(o.Namespace), name: strings.Clone(o.Name), uid: strings.Clone(o.UID), rv: o.ResourceVersion, owner: o.Owner}
	if m.unlabelled {
		return found
	}
	var data struct {
		Object struct {
			Metadata struct{ Labels labels.Set }
		}
	}
	if err := json.Unmarshal(event.CloseData(o.Data), &data); err != nil {
		found.bad = &frame.Malformed{Name: o.Name, UID: o.UID, ResourceVersion: o.ResourceVersion, Reason: err.Error()}
	}
	found.labels = data.Object.Metadata.Labels
	return found
}

func (m *metadataWatch) handle(e watch.Event) error {
	if e.Type == watch.Error {
		return fmt.Errorf("watch: %w", apierrors.FromObject(e.Object))
	}
	w, ok := e.Object.(*frame.Watched)
	if !ok {
		return fmt.Errorf("watch: unexpected %T", e.Object)
	}
	m.resetPause()
	for ; w != nil; w = w.Done() {
		o := &metadataObject{rv: w.ResourceVersion}
		if w.Kind != watch.Bookmark {
			o = m.object(&w.Object, w.Err)
		}
		m.holdOne(w.Kind, o)
		m.user.watched(w.Kind, o)
		m.cursor = max(m.cursor, o.rv)
	}
	return nil
}

// receive handles what the watch brings until it ends; [errSilent] says that it
// brought nothing for so long that it may be dead, [errEnded] that it ended at once.
func (m *metadataWatch) receive(ctx context.Context, w watch.Interface) error {
	began := time.Now()
	silence := time.NewTimer(m.timing.silence)
	defer silence.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-silence.C:
			return errSilent
		case e, ok := <-w.ResultChan():
			if !ok && time.Since(began) < m.timing.tick {
				return errEnded
			}
			if !ok {
				return nil
			}
			err := m.handle(e)
			if err == nil {
				err = m.check()
			}
			if err != nil {
				return err
			}
			silence.Reset(m.timing.silence)
		}
	}
}

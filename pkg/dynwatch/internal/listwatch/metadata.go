package listwatch

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

	"github.com/informd/informd/pkg/dynwatch/internal/decide"
	"github.com/informd/informd/pkg/dynwatch/internal/frame"
	"github.com/informd/informd/pkg/dynwatch/internal/kube"
	"github.com/informd/informd/pkg/event"
)

// MetadataWatch follows the objects of a kind: a list, and a watch from there on, which is resumed
// after a break. Another list follows only if the history since is gone. All of it belongs
// to the goroutine of Run.
type MetadataWatch struct {
	Source *Source
	User   MetadataUser
	timing Timing
	pause  wait.Backoff
	// cursor is the revision to watch from, 0 if a list must come first.
	cursor uint64
	// restored: the storage was restored from a copy since the last list.
	restored bool
	// rollback is the number of the last rollback of a target that was considered.
	rollback uint64
	// held has the revision of each object, by uid: a list that is newer and shows an older one
	// is of another history.
	held map[string]uint64
	// progress is how far the watches have come.
	progress Progress
}

// MetadataUser gets what a MetadataWatch reads. One goroutine makes all calls and waits for them.
type MetadataUser interface {
	// Listed is called with all objects there are, at revision rv: at first, and
	// whenever what happened since the last call is not known. Restored: the
	// revisions before are of another history.
	Listed(all []MetadataObject, rv uint64, restored bool)
	// Watched is called with what a frame brings; of a bookmark only the revision is
	// set.
	Watched(typ watch.EventType, o *MetadataObject)
	// Opened is called when the watch is open.
	Opened()
	// Failed is called when it cannot be. It reports whether the next attempt is unlikely to
	// succeed soon, and can wait for longer.
	Failed(err error) (useless bool)
}

// MetadataObject is what is passed on of an object.
type MetadataObject struct {
	Name, UID string
	RV        uint64
	Labels    labels.Set
	// Bad says that more than the rest of this could not be read.
	Bad *frame.Malformed
}

// NewMetadataWatch makes the watch of a cluster-scoped kind, whose lists must be of one history.
func NewMetadataWatch(c *kube.Clients, gvr schema.GroupVersionResource, kind string, user MetadataUser) (*MetadataWatch, error) {
	s, err := New(Resource{
		GVR: gvr, Kind: kind, Name: event.GroupOrCore(gvr.Group) + "/" + gvr.Resource, MetadataOnly: true,
	}, Options{Clients: c})
	return &MetadataWatch{Source: s, User: user, held: make(map[string]uint64)}, err
}

// SetTiming is to be called before Run, and before anyone uses the source.
func (m *MetadataWatch) SetTiming(tm Timing) {
	m.timing, m.Source.Failures = tm, &Failures{After: tm.Failing}
}

// Run follows the objects until ctx ends.
func (m *MetadataWatch) Run(ctx context.Context) {
	m.resetPause()
	for ctx.Err() == nil {
		err := m.follow(ctx)
		if err == nil || ctx.Err() != nil {
			continue
		}
		_ = kube.Sleep(ctx, m.fail(err)) // the loop ends with ctx
	}
}

// fail returns for how long to pause. A history that is gone is no failure: a list
// follows.
func (m *MetadataWatch) fail(err error) time.Duration {
	least, most := time.Duration(0), m.timing.BackoffCap
	if !Expired(err) && m.User.Failed(err) {
		least, most = m.timing.WaitingCap, m.timing.DeniedCap
	}
	pause := max(least, min(most, m.pause.Step()))
	if wait, ok := kube.SuggestedDelay(err); ok {
		pause = max(pause, wait)
	}
	return pause
}

func (m *MetadataWatch) resetPause() {
	m.pause = kube.Backoff(m.timing.Backoff, m.timing.DeniedCap)
}

// follow watches from the cursor until the watch ends for whatever reason. The
// error is nil if the next one should follow at once.
func (m *MetadataWatch) follow(ctx context.Context) error {
	head := m.cursor
	last, _ := m.Source.Clients.Rollbacks.Last()
	if m.cursor != 0 {
		rv, err := m.Source.Revision(ctx)
		if err != nil {
			return err
		}
		if err := m.Source.Clients.Identity.Check(ctx); err != nil {
			return err
		}
		found, err := m.Source.Clients.Rollbacks.FoundAfter(ctx, m.rollback, m.Source.Revision)
		if err != nil {
			return err
		}
		m.rollback = last
		if head = rv; rv < m.cursor || found {
			m.cursor, m.restored = 0, true
		} else if m.progress.Again(m.cursor, head, m.timing.Reach, 2*m.timing.BackoffCap) { // no watch brings it: a list
			m.cursor, m.progress = 0, Progress{Lenience: m.progress.Lenience}
		}
	}
	if m.cursor == 0 {
		if err := m.List(ctx); err != nil {
			return err
		}
		m.rollback = last // the list is from after it
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	w, err := m.Source.Watch(ctx, m.cursor, m.progress.Stuck > 0)
	if err == nil {
		defer w.Stop()
		err = m.Source.Clients.Identity.Check(ctx)
	}
	if err == nil {
		m.progress.Opened(m.cursor, head)
		m.User.Opened()
		err = m.receive(ctx, w)
	}
	switch {
	case Expired(err), errors.Is(err, ErrLasting):
		m.cursor = 0
	case errors.Is(err, ErrStuck):
		if m.progress.Stuck > 1 { // on two connections: a list follows
			m.cursor, m.progress = 0, Progress{Lenience: min(m.progress.Lenience+1, MaxLenience)}
		}
		return nil
	case errors.Is(err, ErrSilent):
		return nil
	}
	return err
}

// check decides what it means that the watch has not moved, as the target's loop does.
func (m *MetadataWatch) check() error {
	p := &m.progress
	p.Tick(m.cursor, m.timing.Silence)
	switch {
	case !p.Reached(m.cursor) && p.Left(m.timing.Reach) <= 0:
		p.Waited = 0
		p.Stuck++
		return ErrStuck
	case p.Head == 0 && p.Waited >= m.timing.Silence:
		p.Waited = 0
		return ErrSilent // the next watch asks for the revision first
	}
	return nil
}

// List hands all objects of now to the user.
func (m *MetadataWatch) List(ctx context.Context) error {
	var all []MetadataObject
	rv, err := m.ListAt(ctx, 0, func(o *MetadataObject) { all = append(all, *o) })
	if err != nil {
		return err
	}
	if err := m.Source.Clients.Identity.Check(ctx); err != nil {
		return err
	}
	if m.contradicts(all, rv) {
		m.restored = true
	}
	m.hold(all)
	m.User.Listed(all, rv, m.restored)
	m.cursor, m.restored = rv, false
	return nil
}

// contradicts reports whether a list at revision at cannot be of the history that was seen.
func (m *MetadataWatch) contradicts(all []MetadataObject, at uint64) bool {
	return slices.ContainsFunc(all, func(o MetadataObject) bool {
		newest := m.held[o.UID]
		k := decide.Known{Object: decide.Same, RV: newest, Newest: newest}
		return k.Contradicts(o.RV, at)
	})
}

// Reset has the next Run begin with a list.
func (m *MetadataWatch) Reset() {
	m.cursor, m.restored = 0, false
	m.hold(nil)
}

// hold replaces the revisions that are held.
func (m *MetadataWatch) hold(all []MetadataObject) {
	m.held = make(map[string]uint64, len(all))
	for i := range all {
		m.held[all[i].UID] = all[i].RV
	}
}

// holdOne takes note of a frame.
func (m *MetadataWatch) holdOne(typ watch.EventType, o *MetadataObject) {
	switch {
	case typ == watch.Bookmark:
	case typ == watch.Deleted:
		delete(m.held, o.UID)
	default:
		m.held[o.UID] = o.RV
	}
}

// ListAt hands over all objects as they are at a revision, now if it is 0, and
// returns the revision. It may be called by any goroutine.
func (m *MetadataWatch) ListAt(ctx context.Context, rv uint64, item func(*MetadataObject)) (uint64, error) {
	return m.Source.List(ctx, &Listing{At: rv}, m.Source.Frames, func(o *frame.Object, bad *frame.Malformed) error {
		item(m.object(o, bad))
		return nil
	})
}

func (m *MetadataWatch) object(o *frame.Object, bad *frame.Malformed) *MetadataObject {
	if bad != nil {
		return &MetadataObject{Name: bad.Name, UID: bad.UID, RV: bad.ResourceVersion, Bad: bad}
	}
	// The names of a watch share their memory with those of other objects.
	found := &MetadataObject{Name: strings.Clone(o.Name), UID: strings.Clone(o.UID), RV: o.ResourceVersion}
	var data struct {
		Object struct {
			Metadata struct{ Labels labels.Set }
		}
	}
	if err := json.Unmarshal(event.CloseData(o.Data), &data); err != nil {
		found.Bad = &frame.Malformed{Name: o.Name, UID: o.UID, ResourceVersion: o.ResourceVersion, Reason: err.Error()}
	}
	found.Labels = data.Object.Metadata.Labels
	return found
}

func (m *MetadataWatch) handle(ctx context.Context, e watch.Event) error {
	if e.Type == watch.Error {
		return m.Source.NoteWatch(ctx, m.cursor, fmt.Errorf("watch: %w", apierrors.FromObject(e.Object)))
	}
	w, ok := e.Object.(*frame.Watched)
	if !ok {
		return fmt.Errorf("watch: unexpected %T", e.Object)
	}
	m.resetPause()
	for ; w != nil; w = w.Done() {
		o := &MetadataObject{RV: w.ResourceVersion}
		if w.Kind != watch.Bookmark {
			m.progress.Event()
			o = m.object(&w.Object, w.Err)
		}
		m.holdOne(w.Kind, o)
		m.User.Watched(w.Kind, o)
		m.cursor = max(m.cursor, o.RV)
	}
	return nil
}

// receive handles what the watch brings until it ends; [ErrSilent] says that it
// brought nothing for so long that it may be dead, [ErrEnded] that it ended at once.
func (m *MetadataWatch) receive(ctx context.Context, w watch.Interface) error {
	began := time.Now()
	silence := time.NewTimer(m.timing.Silence)
	defer silence.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-silence.C:
			return ErrSilent
		case e, ok := <-w.ResultChan():
			if !ok {
				m.progress.Ended(m.timing.Tick)
				return m.timing.Closed(began)
			}
			err := m.handle(ctx, e)
			if err == nil {
				err = m.check()
			}
			if err != nil {
				return err
			}
			silence.Reset(m.timing.Silence)
		}
	}
}

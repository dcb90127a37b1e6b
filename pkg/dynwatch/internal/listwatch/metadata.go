package listwatch

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/informd/informd/internal/form"
	"github.com/informd/informd/pkg/dynwatch/internal/frame"
	"github.com/informd/informd/pkg/dynwatch/internal/kube"
	"github.com/informd/informd/pkg/event"
)

// MetadataWatch follows the objects of a kind. There are few of them, so each watch begins with a list: what
// a watch has not brought, because it was closed or because its API server is behind, the next list shows. All of
// it belongs to the goroutine of Run.
type MetadataWatch struct {
	Source *Source
	User   MetadataUser
	// Confirm puts a list at a revision right where it must not be wrong, nil if that may be.
	Confirm func(ctx context.Context, all []MetadataObject, rv uint64) ([]MetadataObject, error)
	timing  Timing
	pause   wait.Backoff
	// useless: the last attempt has failed for a reason that lasts.
	useless bool
	// revision is the newest one that was seen, 0 before the first list.
	revision uint64
	// rollback is the number of the last rollback of a target that was considered.
	rollback uint64
}

// watchReaches is how long a watch lasts, in units of [Timing.Reach]: one that is behind is found by then.
const watchReaches = 2

// MetadataUser gets what a MetadataWatch reads. One goroutine makes all calls and waits for them.
type MetadataUser interface {
	// Listed is called with all objects there are, at revision rv, before each watch. Restored: the
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
	return &MetadataWatch{Source: s, User: user}, err
}

// SetTiming is to be called before Run.
func (m *MetadataWatch) SetTiming(tm Timing) { m.timing = tm }

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
// follows. The pauses of failures that last, and of others, grow apart: an API server that starts
// after an outage may refuse everything for a moment.
func (m *MetadataWatch) fail(err error) time.Duration {
	least, most := time.Duration(0), m.timing.BackoffCap
	useless := !Expired(err) && m.User.Failed(err)
	if useless != m.useless {
		m.resetPause()
	}
	if m.useless = useless; useless {
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

// follow lists, and watches from there until the watch ends for whatever reason. The
// error is nil if the next list should follow at once.
func (m *MetadataWatch) follow(ctx context.Context) error {
	if err := m.List(ctx); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	w, err := m.Source.Watch(ctx, m.revision, false)
	if err != nil {
		return err
	}
	defer w.Stop()
	if err := m.Source.Clients.Identity.Check(ctx); err != nil {
		return err
	}
	m.User.Opened()
	return m.receive(ctx, w)
}

// List hands all objects of now to the user.
func (m *MetadataWatch) List(ctx context.Context) error {
	restored := false
	last, _ := m.Source.Clients.Rollbacks.Last()
	if m.revision != 0 {
		var err error
		if restored, err = m.Source.Clients.Rollbacks.FoundAfter(ctx, m.rollback, m.Source.Revision); err != nil {
			return err
		}
	}
	var all []MetadataObject
	rv, err := m.ListAt(ctx, 0, func(o *MetadataObject) { all = append(all, *o) })
	if err != nil {
		return err
	}
	if err := m.Source.Clients.Identity.Check(ctx); err != nil {
		return err
	}
	if m.Confirm != nil {
		if all, err = m.Confirm(ctx, all, rv); err != nil {
			return err
		}
	}
	m.User.Listed(all, rv, restored || rv < m.revision)
	m.revision, m.rollback = rv, last
	return nil
}

// Reset has the next Run begin as the first one.
func (m *MetadataWatch) Reset() { m.revision = 0 }

// ListAt hands over all objects as they are at a revision, now if it is 0, and
// returns the revision. It may be called by any goroutine.
func (m *MetadataWatch) ListAt(ctx context.Context, rv uint64, item func(*MetadataObject)) (uint64, error) {
	return m.Source.List(ctx, &Listing{At: rv}, m.Source.Frames, func(o *frame.Object, bad *frame.Malformed) error {
		item(m.object(o, bad))
		return nil
	})
}

// LookAt returns an object as etcd has it at a revision, or now if that cannot be read, and false if there is none,
// or if the server cannot read single objects.
func (m *MetadataWatch) LookAt(ctx context.Context, name string, rv uint64) (MetadataObject, bool, error) {
	o, ok, err := m.Source.ObjectAt(ctx, "", name, rv)
	if Expired(err) || Unsupported(err) {
		o, ok, err = m.Source.ObjectAt(ctx, "", name, 0)
	}
	if bad, isBad := errors.AsType[*frame.Malformed](err); isBad {
		return *m.object(nil, bad), true, nil
	}
	if err != nil || !ok {
		if Unsupported(err) {
			err = nil
		}
		return MetadataObject{}, false, err
	}
	return *m.object(&o, nil), true, nil
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
	if err := json.Unmarshal(form.CloseData(o.Data), &data); err != nil {
		found.Bad = &frame.Malformed{Name: o.Name, UID: o.UID, ResourceVersion: o.ResourceVersion, Reason: err.Error()}
	}
	found.Labels = data.Object.Metadata.Labels
	return found
}

func (m *MetadataWatch) handle(e watch.Event) error {
	if e.Type == watch.Error {
		return fmt.Errorf("watch: %w", apierrors.FromObject(e.Object))
	}
	w, ok := e.Object.(*frame.Watched)
	if !ok {
		return fmt.Errorf("watch: unexpected %T", e.Object)
	}
	m.resetPause()
	for ; w != nil; w = w.Done() {
		o := &MetadataObject{RV: w.ResourceVersion}
		if w.Kind != watch.Bookmark {
			o = m.object(&w.Object, w.Err)
		}
		m.User.Watched(w.Kind, o)
		m.revision = max(m.revision, o.RV)
	}
	return nil
}

// receive handles what the watch brings until it ends, may be dead, or is due for another list.
// [ErrEnded] says that it ended at once.
func (m *MetadataWatch) receive(ctx context.Context, w watch.Interface) error {
	began := time.Now()
	silence := time.NewTimer(m.timing.Silence)
	defer silence.Stop()
	due := time.NewTimer(watchReaches * m.timing.Reach)
	defer due.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-silence.C:
			return nil
		case <-due.C:
			return nil
		case e, ok := <-w.ResultChan():
			if !ok {
				return m.timing.Closed(began)
			}
			if err := m.handle(e); err != nil {
				return err
			}
			silence.Reset(m.timing.Silence)
		}
	}
}

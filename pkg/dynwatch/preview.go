package dynwatch

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"

	"github.com/informd/informd/pkg/dynwatch/internal/catalog"
	"github.com/informd/informd/pkg/dynwatch/internal/emit"
	"github.com/informd/informd/pkg/dynwatch/internal/frame"
	"github.com/informd/informd/pkg/dynwatch/internal/index"
	"github.com/informd/informd/pkg/dynwatch/internal/target"
	"github.com/informd/informd/pkg/event"
	"github.com/informd/informd/pkg/journal"
)

// Change is one change of one object, as an API server reports it.
type Change struct {
	// Group, Version and Resource are those that the object is served as.
	Group, Version, Resource, Kind string
	// Op is [event.Added], [event.Modified] or [event.Deleted].
	Op event.Op
	// Object is the object's state as JSON, the last one of a deletion, with a name, a
	// uid and a revision. Old is that before, under the same uid; nil if it is not known
	// or there was none.
	Object, Old []byte
}

// WatchPreview is what would become of a change.
type WatchPreview struct {
	// Entries says of each wanted resource whether it takes the object.
	Entries []EntryPreview
	// Entry is the index of the one that does, -1 if none.
	Entry int
	// Target is the watch that would bring the change, empty if none.
	Target string
	// Events are what would be appended to the log. Silence says why there are none.
	Events  []event.Event
	Silence string
}

// EntryPreview is what one wanted resource has to do with an object.
type EntryPreview struct {
	// Refusal says why it does not take the object, empty if it does.
	Refusal string
	// Assumed is what only a cluster knows, and what it is taken to be.
	Assumed []string
}

// Preview returns the event that the wanted set makes of a change. It runs the code of the
// watch, without contact to an API server. Of the options it uses Cluster, RedactionKey and
// PlainAnnotations; the first two are required. Preview evaluates selectors of labels and names itself; see
// [EntryPreview.Assumed] for the conditions that only an API server evaluates. The errors are
// that the wanted set is not valid, or that the object is malformed.
func Preview(ctx context.Context, options Options, wanted []Resource, c Change) (*WatchPreview, error) {
	set, err := newWantedSet(wanted, 0)
	if err != nil {
		return nil, fmt.Errorf("preview: %w", err)
	}
	now, err := selectableOf(c.Object)
	if err != nil {
		return nil, fmt.Errorf("preview: read the object: %w", err)
	}
	p := &WatchPreview{Entry: -1}
	var choice outcome
	for i, r := range wanted {
		v, err := set.judge(wanted[:i], r, &c, now)
		if err != nil {
			return nil, fmt.Errorf("preview: %w", err)
		}
		p.Entries = append(p.Entries, EntryPreview{Refusal: v.refusal, Assumed: v.assumed})
		if v.refusal == "" && p.Entry < 0 {
			p.Entry, p.Target, choice = i, v.spec.Name(), v
		}
	}
	if p.Entry < 0 {
		return p, nil
	}
	p.Events, p.Silence, err = rehearse(ctx, options, choice, &c, now.Metadata.Namespace != "")
	if err != nil {
		return nil, fmt.Errorf("preview: %w", err)
	}
	return p, nil
}

// rehearsal is a log that keeps what is appended, of one object, and nothing else.
type rehearsal struct {
	journal.Stateless

	events []event.Event
	before *event.Event
}

func (l *rehearsal) Append(_ context.Context, events []event.Event) error {
	for _, e := range events {
		e.Data = bytes.Clone(e.Data) // it is the target's again
		l.events = append(l.events, e)
	}
	return nil
}

func (l *rehearsal) Last(context.Context, *event.Event) (event.Event, bool, error) {
	if l.before == nil {
		return event.Event{}, false, nil
	}
	return *l.before, true, nil
}

// begin forgets what came before the change but for the last of it.
func (l *rehearsal) begin() {
	if n := len(l.events); n > 0 {
		l.before = &l.events[n-1]
	}
	l.events = nil
}

// nowhere is an address that is never contacted.
const nowhere = "http://preview.invalid"

// rehearse has a target that is not running handle the change, and returns what it
// appends, or why it appends nothing.
func rehearse(ctx context.Context, o Options, v outcome, c *Change, namespaced bool) (events []event.Event, silence string, err error) {
	log := new(rehearsal)
	m, err := New(Options{
		Cluster: o.Cluster, RedactionKey: o.RedactionKey, PlainAnnotations: o.PlainAnnotations,
		Kubernetes: &rest.Config{Host: nowhere}, Log: log, Logger: slog.New(slog.DiscardHandler),
		Reject: func(_ context.Context, r Rejected) error { return errors.New(r.Reason) },
	})
	if err != nil {
		return nil, "", err
	}
	defer m.Close()
	m.owners = nil // it would ask an API server
	// What the API server evaluates has been.
	s := v.spec
	s.LabelSelector, s.FieldSelector, s.Namespaces.Selector = "", "", ""
	t := m.newTarget(s)
	t.Writer.Resolved = catalog.Resolved{
		GVR:  schema.GroupVersionResource{Group: s.Group, Version: s.Version, Resource: s.Resource},
		Kind: c.Kind, Namespaced: namespaced,
	}
	if s.Version == "" {
		t.Writer.Resolved.GVR.Version = c.Version
	}
	if t.Discovery.Source, err = s.Source(t.Writer.Resolved, m.clients, t.Writer.Shape, t.Coverage.Filter); err != nil {
		return nil, "", err
	}
	object, err := rehearsed(t, c.Object)
	if err != nil {
		return nil, "", fmt.Errorf("informd would store the object as a dead letter: %w", err)
	}
	if err := rehearseBefore(ctx, t, c, object); err != nil {
		return nil, "", err
	}
	log.begin()
	e := t.Index.Get(object.Namespace, object.Name)
	switch {
	case v.left:
		err = t.Objects.End(ctx, event.Left, e, object, object.ResourceVersion, false)
	case v.entered:
		err = t.Objects.Announce(ctx, event.Entered, object, e, false, object.ResourceVersion)
	case c.Op == event.Deleted:
		err = t.Apply(ctx, watch.Deleted, object)
	default:
		err = t.Apply(ctx, watch.Modified, object)
	}
	if err == nil {
		err = t.Writer.Flush(ctx)
	}
	if err == nil && len(log.events) == 0 {
		silence = silent(t, e, object)
	}
	return log.events, silence, err
}

// silent says why nothing was announced of an object.
func silent(t *target.Target, e *index.Entry, object *frame.Object) string {
	switch {
	case t.Status.Unchanged.Load() > 0:
		return "the change filter of the entry skips the change: no field that it names has changed " +
			"(spec means metadata.generation, which the API server increments)"
	case e != nil && object.ResourceVersion <= e.RV:
		return fmt.Sprintf("revision %d is not newer than %d, the revision of the previous object", object.ResourceVersion, e.RV)
	}
	return "informd sees no change"
}

// rehearseBefore brings the index to what it is before the change.
func rehearseBefore(ctx context.Context, t *target.Target, c *Change, object *frame.Object) error {
	switch {
	case c.Old != nil:
		old, err := rehearsed(t, c.Old)
		if err != nil {
			return fmt.Errorf("the previous object: %w", err)
		}
		return t.Apply(ctx, watch.Added, old)
	case c.Op != event.Added:
		// It was announced once, at a revision that is not known.
		t.Index.Put(emit.IDOf(object)).Ordinal = 1
	}
	return nil
}

// rehearsed normalises an object as one of a frame.
func rehearsed(t *target.Target, raw []byte) (*frame.Object, error) {
	if t.Spec.MetadataOnly {
		var parts map[string]json.RawMessage
		if err := json.Unmarshal(raw, &parts); err != nil {
			return nil, err
		}
		// The API server sends no more.
		only, err := json.Marshal(map[string]json.RawMessage{"metadata": parts["metadata"]})
		if err != nil {
			return nil, err
		}
		raw = only
	}
	o, err := t.Discovery.Source.Frames.Normalise(raw)
	return &o, err
}

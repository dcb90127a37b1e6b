package informer

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strconv"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/informd/informd/pkg/dynwatch"
	"github.com/informd/informd/pkg/event"
	"github.com/informd/informd/pkg/informer/internal/objects"
)

// apply applies the events of the target, one call at a time. It blocks while the queue of a
// handler is full.
func (i *sharedInformer) apply(ctx context.Context, events []event.Event) error {
	for n := range events {
		if err := ctx.Err(); err != nil {
			return err
		}
		e := &events[n]
		i.position.enter(e.Epoch)
		switch e.Op {
		case event.Begin:
			i.round++
			i.position.list()
		case event.Synced:
			i.complete(ctx, e)
		case event.State:
			state, reason := e.TargetState()
			switch dynwatch.State(state) {
			case dynwatch.Forbidden:
				i.reportError(apierrors.NewForbidden(i.gvr.GroupResource(), "", errors.New(reason)))
			case dynwatch.Waiting, dynwatch.Stale, dynwatch.Degraded:
				err := errors.New(reason)
				if now := i.runner.target(i); string(now.State) == state && now.Err != nil {
					err = now.Err // a journal can be behind the target
				}
				i.reportError(fmt.Errorf("%s: %w", state, err))
			default:
			}
		case event.Gap:
		case event.Deleted, event.Left:
			i.remove(ctx, e)
		default:
			i.put(ctx, e)
		}
	}
	return ctx.Err()
}

// advance is called when the store has the change of an event. Recovered changes are not in the
// order of their revisions, and so do not move the position.
func (i *sharedInformer) advance(e *event.Event) {
	i.store.Advance(e.ResourceVersion)
	if !e.Replay {
		i.position.watched(e.ResourceVersion)
	}
}

func keyOf(e *event.Event) string {
	if e.Namespace == "" {
		return e.Name
	}
	return e.Namespace + "/" + e.Name
}

// send changes the store and queues the notifications that change returns. A handler that is
// added meanwhile begins with the store before or after all of it.
func (i *sharedInformer) send(ctx context.Context, change func() []notification) {
	i.mu.Lock()
	all := change()
	handlers := i.handlers
	i.sending = true
	i.mu.Unlock()
	defer func() {
		i.mu.Lock()
		i.sending = false
		i.mu.Unlock()
		for _, r := range handlers {
			if r.resync > 0 {
				signal(r.queue.ready) // it may have waited for this
			}
		}
	}()
	for _, n := range all {
		n.after = i.after
		for _, r := range handlers {
			if n.to == allHandlers || (n.to == lateHandlers) == r.late {
				r.queue.put(n, ctx.Done(), r.removed)
			}
		}
	}
}

// put stores the new state of an object.
func (i *sharedInformer) put(ctx context.Context, e *event.Event) {
	key := keyOf(e)
	text, into, err := i.transformed(e.Object())
	if err != nil {
		i.failed(key, err)
		i.store.Keep(key, e.UID, i.round)
		i.advance(e)
		return
	}
	rv := strconv.FormatUint(e.ResourceVersion, 10)
	i.send(ctx, func() []notification {
		before, now := i.store.Put(key, e.UID, rv, text, into, i.round)
		i.advance(e)
		add := notification{action: added, key: key, now: now.Blob, initial: !i.synced.reached()}
		switch {
		case before == nil:
			return []notification{add}
		case before.UID != e.UID:
			return []notification{{action: deleted, key: key, old: before.Blob, unknown: true}, add}
		case before.RV == rv:
			return nil
		default:
			return []notification{{action: updated, key: key, old: before.Blob, now: now.Blob}}
		}
	})
}

// remove handles a terminal event.
func (i *sharedInformer) remove(ctx context.Context, e *event.Event) {
	key := keyOf(e)
	final := !bytes.HasSuffix(e.Data, []byte(`,"final":false}`))
	text := e.Object()
	var into reflect.Type
	if text != nil {
		var err error
		if text, into, err = i.transformed(text); err != nil {
			i.failed(key, err)
			text = nil
		}
	}
	i.send(ctx, func() []notification {
		defer i.advance(e)
		known := i.store.Entry(key)
		if known == nil && !i.resumed || known != nil && known.UID != e.UID {
			return nil // it was replaced, and so reported, already
		}
		n := notification{action: deleted, key: key, unknown: !final || text == nil}
		if known != nil {
			n.old = i.store.Remove(key).Blob
		} else {
			n.to = resumedHandlers
		}
		if text != nil {
			n.old = i.store.Compress(text, into)
		}
		return []notification{n}
	})
}

// fill stores an object of an earlier process, whose handlers have had it. An object that the store
// has is newer.
func (i *sharedInformer) fill(ctx context.Context, e *event.Event) {
	key := keyOf(e)
	if i.store.Entry(key) != nil {
		return
	}
	text, into, err := i.transformed(e.Object())
	if err != nil {
		i.failed(key, err)
		return
	}
	i.send(ctx, func() []notification {
		_, now := i.store.Put(key, e.UID, strconv.FormatUint(e.ResourceVersion, 10), text, into, 0) // seen in no list of this process
		return []notification{{action: added, key: key, now: now.Blob, initial: true, to: lateHandlers}}
	})
}

// complete ends a list: objects that it did not contain are deleted.
func (i *sharedInformer) complete(ctx context.Context, e *event.Event) {
	for _, o := range i.store.Snapshot() {
		if o.Round == i.round {
			continue
		}
		i.send(ctx, func() []notification {
			i.store.Remove(o.Key)
			return []notification{{action: deleted, key: o.Key, old: o.Blob, unknown: true}}
		})
	}
	if i.refilling {
		return // the list of an earlier process: the store has a part of it
	}
	i.reach(ctx, e.ResourceVersion)
}

// reach makes the informer synced: the store has all objects, as of a resourceVersion.
func (i *sharedInformer) reach(ctx context.Context, rv uint64) {
	i.send(ctx, func() []notification {
		i.store.Advance(rv)
		i.position.listed(rv)
		if i.synced.reached() {
			return nil
		}
		i.synced.complete()
		return []notification{{action: reached}}
	})
}

// transformed returns the JSON of an object as the store keeps it, and its type. The error is that of an
// object that the program could not read.
func (i *sharedInformer) transformed(text []byte) (result []byte, into reflect.Type, err error) {
	if text == nil {
		return nil, nil, errors.New("the event has no object")
	}
	into = i.store.Into()
	if i.transform == nil && objects.TakesAll(into) {
		return text, into, nil
	}
	defer func() {
		if fault := recover(); fault != nil {
			err = fmt.Errorf("decode or transform: panic: %v", fault)
		}
	}()
	o, err := objects.Decode(text, into)
	if err != nil || i.transform == nil {
		return text, into, err
	}
	changed, err := i.transform(o)
	if err != nil {
		return nil, nil, fmt.Errorf("transform: %w", err)
	}
	into = reflect.TypeOf(changed)
	if into == nil || into.Kind() != reflect.Pointer {
		return nil, nil, fmt.Errorf("transform: %T is no pointer to an object", changed)
	}
	if result, err = json.Marshal(changed); err != nil {
		return nil, nil, fmt.Errorf("transform: %w", err)
	}
	if into.Elem() == objects.MetadataType() && i.store.Into() == objects.KindedType() {
		return result, objects.KindedType(), nil
	}
	return result, into.Elem(), nil
}

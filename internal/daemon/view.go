package daemon

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"

	"github.com/informd/informd/internal/admin"
	"github.com/informd/informd/internal/config"
	"github.com/informd/informd/internal/daemon/internal/store"
	"github.com/informd/informd/internal/tail"
	"github.com/informd/informd/pkg/event"
	"github.com/informd/informd/pkg/journal"
	"github.com/informd/informd/pkg/journal/jetstream/history"
)

// shownLog is a log whose events the readers of a feed see, once they are in it.
type shownLog struct {
	journal.Log
	feed *tail.Feed
}

// Append implements [journal.Log].
func (l shownLog) Append(ctx context.Context, events []event.Event) error {
	err := l.Log.Append(ctx, events)
	if err == nil {
		l.feed.Publish(events)
	}
	return err
}

// history returns what reads the journal.
func (o operator) history() (*history.Reader, error) {
	p, err := o.pipeline()
	switch {
	case err != nil:
		return nil, err
	case p.store.History == nil:
		return nil, store.ErrNoHistory
	default:
		return p.store.History, nil
	}
}

func (o operator) History(ctx context.Context, object string) (admin.History, error) {
	reader, err := o.history()
	if err != nil {
		return admin.History{}, err
	}
	return historyFrom(ctx, reader, o.daemon.config, object)
}

// ReadHistory is what a running informd says about an object at /history, read from the journal
// of the config while none runs. It fails while an informd uses an embedded journal.
func ReadHistory(ctx context.Context, c *config.Config, object string) (_ admin.History, err error) {
	reader, closing, err := store.Read(ctx, c, slog.New(slog.DiscardHandler))
	if err != nil {
		return admin.History{}, err
	}
	defer func() { err = errors.Join(err, closing()) }()
	return historyFrom(ctx, reader, c, object)
}

func historyFrom(ctx context.Context, reader *history.Reader, c *config.Config, object string) (admin.History, error) {
	group, resource, namespace, name, ok := config.ParseObjectName(object)
	if !ok {
		return admin.History{}, admin.Unknown("object %q: it must be <resource>[.<group>]/[<namespace>/]<name>, as in pods/shop/web-1", object)
	}
	of := history.Object{Group: group, Resource: resource, Namespace: namespace, Name: name}
	events, err := reader.Events(ctx, of)
	if errors.Is(err, history.ErrAmbiguous) {
		err = admin.Unknown("%v; add one to the resource, as in %s.<group>", err, resource)
	}
	return admin.History{Object: of.String(), Limit: c.Journal.HistoryPerObject, Events: texts(events)}, err
}

func (o operator) Gaps(ctx context.Context) ([]json.RawMessage, error) {
	reader, err := o.history()
	if err != nil {
		return nil, err
	}
	events, err := reader.Gaps(ctx)
	return texts(events), err
}

// texts are events as CloudEvents.
func texts(events []event.Event) []json.RawMessage {
	all := make([]json.RawMessage, len(events))
	for i := range events {
		all[i] = events[i].AppendJSON(nil)
	}
	return all
}

func (o operator) Tail(wants *tail.Wants, lossy bool) (*tail.Reader, error) {
	if _, err := o.pipeline(); err != nil {
		return nil, err
	}
	return o.daemon.tails.Open(wants.Match, lossy)
}

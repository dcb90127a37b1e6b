package daemon

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"slices"

	"github.com/informd/informd/internal/admin"
	"github.com/informd/informd/internal/config"
	"github.com/informd/informd/internal/display"
	"github.com/informd/informd/internal/tail"
	"github.com/informd/informd/pkg/dynwatch"
	"github.com/informd/informd/pkg/event"
	"github.com/informd/informd/pkg/journal"
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
func (o operator) history() (journal.History, error) {
	p, err := o.pipeline()
	if err != nil {
		return journal.History{}, err
	}
	return p.store.History(), nil
}

func (o operator) History(ctx context.Context, object string) (admin.Past, error) {
	reader, err := o.history()
	if err != nil {
		return admin.Past{}, err
	}
	return pastOf(ctx, reader, o.daemon.config, object)
}

func (o operator) EachGap(ctx context.Context, take func(json.RawMessage) error) error {
	reader, err := o.history()
	if err != nil {
		return err
	}
	return reader.EachGap(ctx, inJSON(take))
}

// ReadHistory is what a running informd says about an object at /history, read from the journal
// of the config while none runs. It fails while an informd uses the log.
func ReadHistory(ctx context.Context, c *config.Config, object string) (found admin.History, err error) {
	err = reading(c, func(reader journal.History) error {
		past, err := pastOf(ctx, reader, c, object)
		if err != nil {
			return err
		}
		found = admin.History{Object: past.Object, Limit: past.Limit}
		return past.Each(ctx, appendTo(&found.Events))
	})
	return found, err
}

// ReadGaps is what a running informd says at /gaps, as [ReadHistory] is.
func ReadGaps(ctx context.Context, c *config.Config) (found admin.Gaps, err error) {
	found.Events = []json.RawMessage{}
	err = reading(c, func(reader journal.History) error {
		return reader.EachGap(ctx, inJSON(appendTo(&found.Events)))
	})
	return found, err
}

// errNoHistory says that nothing is left to read.
var errNoHistory = errors.New("a memory journal ends with its informd: it needs another journal.type, or a running informd")

// reading opens the journal of the config to read it without an informd. The log is locked meanwhile: while an informd
// uses it, it fails.
func reading(c *config.Config, read func(journal.History) error) error {
	if c.Journal.Type == config.JournalMemory {
		return errNoHistory
	}
	reader, closing, err := journal.ReadDir(c.Journal.Dir)
	if err != nil {
		return err
	}
	return errors.Join(read(reader), closing())
}

// pastOf finds an object in a journal.
func pastOf(ctx context.Context, reader journal.History, c *config.Config, object string) (admin.Past, error) {
	group, resource, namespace, name, err := config.ParseObjectName(object)
	if err != nil {
		return admin.Past{}, admin.Unknown("%v", err)
	}
	of, err := reader.Find(ctx, journal.Object{Group: group, Resource: resource, Namespace: namespace, Name: name})
	if errors.Is(err, journal.ErrAmbiguous) {
		err = admin.Unknown("%v; add one to the resource, as in %s.<group>", err, resource)
	}
	return admin.Past{
		Object: of.String(), Limit: c.Journal.HistoryPerObject,
		Each: func(ctx context.Context, take func(json.RawMessage) error) error {
			return reader.Each(ctx, of, inJSON(take))
		},
	}, err
}

// inJSON hands events on as CloudEvents.
func inJSON(take func(json.RawMessage) error) func(event.Event) error {
	return func(e event.Event) error { return take(e.AppendJSON(nil)) }
}

// appendTo collects events as a running informd sends them: what a terminal would obey is escaped.
func appendTo(events *[]json.RawMessage) func(json.RawMessage) error {
	return func(e json.RawMessage) error {
		*events = append(*events, bytes.Clone(display.JSON(e)))
		return nil
	}
}

func (o operator) Tail(wants *tail.Wants) (*tail.Reader, error) {
	p, err := o.pipeline()
	if err != nil {
		return nil, err
	}
	if err := checkWatched(wants, p.manager.Targets()); err != nil {
		return nil, err
	}
	return o.daemon.tails.Open(wants.Match)
}

// checkWatched refuses a tail of a resource that no target has. Without targets informd has just started.
func checkWatched(wants *tail.Wants, targets []dynwatch.TargetStatus) error {
	watched := func(t dynwatch.TargetStatus) bool { return wants.MayBe(t.Group, t.Resource) }
	if len(targets) == 0 || slices.ContainsFunc(targets, watched) {
		return nil
	}
	return notWatched(wants.Resource(), targets)
}

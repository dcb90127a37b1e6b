package dynwatch

import (
	"context"
	"errors"
	"time"

	"k8s.io/apimachinery/pkg/watch"

	"github.com/informd/informd/pkg/dynwatch/internal/frame"
	"github.com/informd/informd/pkg/dynwatch/internal/kube"
	"github.com/informd/informd/pkg/dynwatch/internal/listwatch"
	"github.com/informd/informd/pkg/dynwatch/internal/selection"
)

// bodiesByName is up to how many differing objects are fetched one by one after
// a comparison; beyond it a whole list is cheaper.
const bodiesByName = 100

// compare does a sweep with metadata only, walks back from what differs, and then
// fetches the bodies of it. It returns the list's revision.
func (t *reconciler) compare(ctx context.Context, s *sweep) (uint64, error) {
	differing, rv, err := t.differences(ctx, s)
	if err != nil {
		return rv, err
	}
	if s.at = rv; s.horizon == 0 {
		if err := t.walk(ctx, t.queries(s, differing)); err != nil {
			return rv, err
		}
	}
	if t.lost != nil { // what is fetched may hide revisions
		if err := t.markLost(ctx); err != nil {
			return rv, err
		}
	}
	return rv, t.fetch(ctx, s, differing)
}

// differences does a sweep with metadata only. It returns the list's revision.
func (t *sweeper) differences(ctx context.Context, s *sweep) (differing []listwatch.Listed, rv uint64, err error) {
	rv, err = t.source.ListMetadata(ctx, s.at, func(m listwatch.Listed) error {
		t.status.progressNow()
		e := t.index.Get(m.Namespace, m.Name)
		if e != nil {
			e.Sweep = s.number
		}
		t.noteListed(&s.against, e, m)
		if m.RV <= t.coverage.ListedAt(m.Namespace) {
			if err := t.skip(ctx, selection.LeftFrame{Kind: watch.Added, Namespace: m.Namespace, Name: m.Name, RV: m.RV}); err != nil {
				return err
			}
		}
		fromWatch := s.horizon != 0 && m.RV > s.horizon
		if !fromWatch && !t.isPast(e, m.Namespace, m.Name, m.UID, m.RV) && (e == nil || !t.index.IsUID(e, m.UID) || m.RV > t.index.Newest(e)) {
			differing = append(differing, m)
		}
		return nil
	})
	if err == nil {
		since := time.Now()
		if s.inRow {
			since = since.Add(-kube.IdentityShared)
		}
		err = t.clients.Identity.CheckSince(ctx, since)
	}
	if err == nil {
		err = t.checkHistory(ctx, &s.against, rv)
	}
	return differing, rv, err
}

// fetch reads the listed states of what differs, one by one if that is not much,
// else by a list, and emits them.
func (t *sweeper) fetch(ctx context.Context, s *sweep, differing []listwatch.Listed) error {
	if len(differing) > bodiesByName {
		_, err := t.list(ctx, s, &listwatch.Listing{At: s.at})
		return err
	}
	for _, d := range differing {
		o, ok, err := t.source.ObjectAt(ctx, d.Namespace, d.Name, s.at)
		var bad *frame.Malformed
		switch {
		case errors.As(err, &bad):
			err = t.rejectListed(ctx, s, bad)
		case err == nil && ok:
			err = t.observe(ctx, s, &o)
		case err == nil: // the list was wrong
			t.convict(d, &o, false, s.at)
		}
		if err != nil {
			return err
		}
	}
	return t.Flush(ctx)
}

package target

import (
	"context"
	"errors"
	"fmt"

	"github.com/informd/informd/pkg/dynwatch/internal/decide"
	"github.com/informd/informd/pkg/dynwatch/internal/frame"
	"github.com/informd/informd/pkg/dynwatch/internal/index"
	"github.com/informd/informd/pkg/dynwatch/internal/listwatch"
	"github.com/informd/informd/pkg/dynwatch/internal/recovery"
)

// BodiesByName is up to how many differing objects are fetched one by one after
// a comparison; beyond it a whole list is cheaper.
const BodiesByName = 100

// differences does a sweep with metadata only. It returns the list's revision. What the list lacks
// is confirmed.
func (t *Target) differences(ctx context.Context, s *Pass) (differing []listwatch.Listed, rv uint64, err error) {
	rv, err = t.Discovery.Source.ListMetadata(ctx, &listwatch.Listing{At: s.At, Brief: s.Brief}, func(m listwatch.Listed) error {
		t.Status.Progressed()
		k, _ := t.Objects.listed(s, index.ID{Namespace: m.Namespace, Name: m.Name, UID: m.UID})
		if err := t.Objects.noteListed(ctx, &s.against, k, m); err != nil {
			return err
		}
		k.Left = k.Object == decide.Unknown && t.Objects.mayReturn(m.Namespace, m.Name) // observe asks the log
		d := decide.Decide(k, decide.Seen{Kind: decide.Listed, RV: m.RV}, decide.Rules{Arrival: s.Newcomer})
		if d.Replaced || d.Op != "" {
			differing = append(differing, m)
		}
		return nil
	})
	if err == nil {
		err = t.Clients.Identity.Check(ctx)
	}
	if err == nil {
		err = t.checkHistory(ctx, &s.against, rv)
	}
	if err == nil {
		err = t.Objects.confirm(ctx, s, t.Objects.absent(s, rv), rv)
	}
	return differing, rv, err
}

// fetch reads the listed states of what differs, one by one if that is not much,
// else by a list, and emits them.
func (t *Target) fetch(ctx context.Context, s *Pass, differing []listwatch.Listed) error {
	if len(differing) > BodiesByName {
		_, err := t.list(ctx, s, &listwatch.Listing{At: s.At, Brief: s.Brief})
		return err
	}
	for _, d := range differing {
		o, ok, err := t.Discovery.Source.MatchAt(ctx, d.Namespace, d.Name, s.At)
		var bad *frame.Malformed
		switch {
		case errors.As(err, &bad):
			err = t.rejectListed(ctx, s, bad)
		case err == nil && ok:
			err = t.observe(ctx, s, &o)
		} // else the list was wrong: etcd does not have it
		if err != nil {
			return err
		}
	}
	return t.Writer.Flush(ctx)
}

// matchesList reports whether a list of now equals the index. The index has no state of an object that was rejected.
func (t *Target) matchesList(ctx context.Context) (rv uint64, same bool, err error) {
	same, n := true, 0
	var against recovery.Contradictions
	rv, err = t.Discovery.Source.ListMetadata(ctx, new(listwatch.Listing), func(m listwatch.Listed) error {
		e := t.Index.Get(m.Namespace, m.Name)
		k := t.Index.Known(e, m.UID)
		against.Note(k, m)
		rejected := t.rejections.has(m.UID, m.RV)
		if rejected && k.Object == decide.Unknown {
			return nil
		}
		n++
		same = same && k.Object == decide.Same && (k.Newest == m.RV || rejected || t.Objects.mayHaveHeldBack(e, m.RV))
		return nil
	})
	if listwatch.Expired(err) {
		// The list took too long. The watch has lost no history, as 410 of a watch says.
		err = fmt.Errorf("compare with a list: %v", err) //nolint:errorlint // see above
	}
	if err == nil {
		err = t.Clients.Identity.Check(ctx)
	}
	if err == nil {
		err = t.checkHistory(ctx, &against, rv)
	}
	return rv, same && n == t.Index.Len(), err
}

// Package audit compares the index of a target with a list while the watch stays open. What still differs when
// the watch has passed the list, and etcd confirms, is reconciled.
package audit

import (
	"context"
	"sync"
	"time"

	"github.com/informd/informd/pkg/dynwatch/internal/decide"
	"github.com/informd/informd/pkg/dynwatch/internal/index"
	"github.com/informd/informd/pkg/dynwatch/internal/listwatch"
)

const (
	// batchSize is how many listed objects are compared at a time, between frames.
	batchSize = 500
)

// Run is an audit that is under way. All but the list until it is complete
// belongs to the goroutine that started it. Its fields are one state: the list, what it has
// found, and how far the watch has come since.
type Run struct {
	// number marks the entries that the list holds.
	number uint32
	// limit bounds the suspects that are kept.
	limit int
	// pages is what was listed; it is closed at the end of the list, and RV and
	// Err are set then.
	pages chan []listwatch.Listed
	// RV is the revision of the list, Err why there is none.
	RV  uint64
	Err error
	// Stop ends the list and waits for its end.
	Stop func()

	// Objects is how many the list held so far.
	Objects int
	// Complete: the list was compared to its end.
	Complete bool
	// Suspects are objects whose state in the list and in the index differ, by name.
	Suspects map[string]listwatch.Listed
	// ended are the revisions of ends that the watch has brought since, by name.
	ended map[string]uint64
	// more counts suspects and ends beyond what is kept.
	more int
	// stand is the cursor when the watch was last seen past the list, since when.
	stand uint64
	since time.Time
}

// Start lists the objects of a source.
func Start(ctx context.Context, source *listwatch.Source, number uint32, limit int) *Run {
	ctx, cancel := context.WithCancel(ctx)
	r := &Run{number: number, limit: limit, pages: make(chan []listwatch.Listed), Suspects: make(map[string]listwatch.Listed), ended: make(map[string]uint64)}
	var lister sync.WaitGroup
	lister.Go(func() { r.list(ctx, source) })
	r.Stop = func() {
		cancel()
		lister.Wait()
	}
	return r
}

// Pages is where the next page comes from; nil if there is none.
func (r *Run) Pages() <-chan []listwatch.Listed {
	if r == nil || r.Complete {
		return nil
	}
	return r.pages
}

// list sends the pages of a list at the newest revision.
func (r *Run) list(ctx context.Context, source *listwatch.Source) {
	defer close(r.pages)
	if r.Err = r.listPages(ctx, source); r.Err == nil {
		r.Err = source.Clients.Identity.Check(ctx)
	}
}

func (r *Run) listPages(ctx context.Context, source *listwatch.Source) error {
	page := make([]listwatch.Listed, 0, batchSize)
	send := func() error {
		select {
		case r.pages <- page:
			page = make([]listwatch.Listed, 0, batchSize)
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	item := func(m listwatch.Listed) error {
		page = append(page, m)
		if len(page) < batchSize {
			return nil
		}
		return send()
	}
	// An API server that finds its own cache wrong (feature DetectCacheInconsistency, every 5 to 8
	// minutes) serves lists at an exact revision from etcd from then on.
	rv, err := source.Revision(ctx)
	if err != nil {
		return err
	}
	r.RV, err = source.ListMetadata(ctx, rv, item)
	if listwatch.Unsupported(err) {
		r.RV, err = source.ListMetadata(ctx, 0, item)
	}
	if err != nil {
		return err
	}
	return send()
}

// Compare compares one page with the index, and what the list lacks once it is over.
func (r *Run) Compare(x *index.Index, page []listwatch.Listed, more bool) {
	for _, d := range page {
		r.Objects++
		e := x.Get(d.Namespace, d.Name)
		if e != nil {
			e.Sweep = r.number
		}
		k := x.Known(e, d.UID)
		if d.RV != 0 && (k.Object != decide.Same || k.Newest != d.RV) {
			r.suspect(d)
		}
	}
	if more {
		return
	}
	r.Complete = true
	if r.Err != nil {
		return
	}
	for e := range x.All() {
		// A frame can have brought an object since its page was compared: it is a suspect already.
		_, listed := r.Suspects[index.Key(x.Namespace(e), x.Name(e))]
		if e.Sweep != r.number && e.RV <= r.RV && !listed {
			r.suspect(listwatch.Listed{Namespace: x.Namespace(e), Name: x.Name(e)})
		}
	}
}

func (r *Run) suspect(d listwatch.Listed) {
	if len(r.Suspects) >= r.limit {
		r.more++
		return
	}
	r.Suspects[index.Key(d.Namespace, d.Name)] = d
}

// End notes that the watch has brought the end of an object at revision rv. It does nothing without a run.
func (r *Run) End(namespace, name string, rv uint64) {
	switch {
	case r == nil:
	case len(r.ended) >= r.limit:
		r.more++
	default:
		r.ended[index.Key(namespace, name)] = rv
	}
}

// Differing is how many objects are suspects.
func (r *Run) Differing() int { return len(r.Suspects) + r.more }

// Settled reports whether all frames up to the cursor, which is past the list, were seen. More
// objects can end at the cursor than have yet, unless the watch would resume there: then the
// cursor must move on, or stay for a tick.
func (r *Run) Settled(cursor, resume uint64, tick time.Duration) bool {
	if r.stand != cursor {
		r.stand, r.since = cursor, time.Now()
	}
	return resume == cursor || time.Since(r.since) >= tick
}

package target

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

// auditRun is an audit that is under way. All but the list until it is complete
// belongs to the goroutine that started it. Its fields are one state: the list, what it has
// found, and how far the watch has come since.
type auditRun struct {
	// number marks the entries that the list holds.
	number uint32
	// limit bounds the suspects that are kept.
	limit int
	// pages is what was listed; it is closed at the end of the list, and RV and
	// Err are set then.
	pages chan []listwatch.Listed
	// RV is the revision of the list, Err why there is none.
	rv  uint64
	err error
	// Stop ends the list and waits for its end.
	stop func()

	// Objects is how many the list held so far.
	objects int
	// Complete: the list was compared to its end.
	complete bool
	// Suspects are objects whose state in the list and in the index differ, by name.
	suspects map[string]listwatch.Listed
	// ended are the revisions of ends that the watch has brought since, by name.
	ended map[string]uint64
	// more counts suspects and ends beyond what is kept.
	more int
	// stand is the cursor when the watch was last seen past the list, since when.
	stand uint64
	since time.Time
}

// Start lists the objects of a source.
func startAudit(ctx context.Context, source *listwatch.Source, number uint32, limit int) *auditRun {
	ctx, cancel := context.WithCancel(ctx)
	r := &auditRun{number: number, limit: limit, pages: make(chan []listwatch.Listed), suspects: make(map[string]listwatch.Listed), ended: make(map[string]uint64)}
	var lister sync.WaitGroup
	lister.Go(func() { r.list(ctx, source) })
	r.stop = func() {
		cancel()
		lister.Wait()
	}
	return r
}

// next is where the next page comes from; nil if there is none.
func (r *auditRun) next() <-chan []listwatch.Listed {
	if r == nil || r.complete {
		return nil
	}
	return r.pages
}

// list sends the pages of a list at the newest revision.
func (r *auditRun) list(ctx context.Context, source *listwatch.Source) {
	defer close(r.pages)
	if r.err = r.listPages(ctx, source); r.err == nil {
		r.err = source.Clients.Identity.Check(ctx)
	}
}

func (r *auditRun) listPages(ctx context.Context, source *listwatch.Source) error {
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
	r.rv, err = source.ListMetadata(ctx, rv, item)
	if listwatch.Unsupported(err) {
		r.rv, err = source.ListMetadata(ctx, 0, item)
	}
	if err != nil {
		return err
	}
	return send()
}

// compare compares one page with the index, and what the list lacks once it is over.
func (r *auditRun) compare(x *index.Index, page []listwatch.Listed, more bool) {
	for _, d := range page {
		r.objects++
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
	r.complete = true
	if r.err != nil {
		return
	}
	for e := range x.All() {
		// A frame can have brought an object since its page was compared: it is a suspect already.
		_, listed := r.suspects[index.Key(x.Namespace(e), x.Name(e))]
		if e.Sweep != r.number && e.RV <= r.rv && !listed {
			r.suspect(listwatch.Listed{Namespace: x.Namespace(e), Name: x.Name(e)})
		}
	}
}

func (r *auditRun) suspect(d listwatch.Listed) {
	if len(r.suspects) >= r.limit {
		r.more++
		return
	}
	r.suspects[index.Key(d.Namespace, d.Name)] = d
}

// end notes that the watch has brought the end of an object at revision rv. It does nothing without a run.
func (r *auditRun) end(namespace, name string, rv uint64) {
	switch {
	case r == nil:
	case len(r.ended) >= r.limit:
		r.more++
	default:
		r.ended[index.Key(namespace, name)] = rv
	}
}

// differing is how many objects are suspects.
func (r *auditRun) differing() int { return len(r.suspects) + r.more }

// settled reports whether all frames up to the cursor, which is past the list, were seen. More
// objects can end at the cursor than have yet, unless the watch would resume there: then the
// cursor must move on, or stay for a tick.
func (r *auditRun) settled(cursor, resume uint64, tick time.Duration) bool {
	if r.stand != cursor {
		r.stand, r.since = cursor, time.Now()
	}
	return resume == cursor || time.Since(r.since) >= tick
}

package target

import (
	"context"
	"sync"

	"github.com/informd/informd/pkg/dynwatch/internal/decide"
	"github.com/informd/informd/pkg/dynwatch/internal/index"
	"github.com/informd/informd/pkg/dynwatch/internal/listwatch"
	"github.com/informd/informd/pkg/dynwatch/internal/selection"
)

const (
	// batchSize is how many listed objects are compared at a time, between frames.
	batchSize = 500
	// maxEnded bounds the ends of objects that are kept. Others count as differences, until they are compared again.
	maxEnded = 10_000
)

// auditRun is an audit that is under way. All but the list until it is complete belongs to the loop of the target.
type auditRun struct {
	// number marks the entries that the list holds.
	number uint32
	// at is the revision of the list, position the one from which a watch would have resumed at the beginning. At is 0
	// for the newest revision, until the first page is there.
	at, position uint64
	// pages is what was listed; it is closed at the end of the list, and err, why that failed, is set then.
	pages chan []listwatch.Listed
	err   error
	// stop ends the list and waits for its end.
	stop func()

	// objects is how many the list held so far, differing how many of them, and of those that it lacks, differ from the
	// index.
	objects, differing int
	// complete: the list was compared to its end.
	complete bool
	// ended are the revisions of ends behind the position at which the audit began, by name.
	ended map[string]uint64
}

// start lists the objects of a source.
func (r *auditRun) start(ctx context.Context, source *listwatch.Source) {
	ctx, cancel := context.WithCancel(ctx)
	r.pages = make(chan []listwatch.Listed)
	var lister sync.WaitGroup
	lister.Go(func() {
		defer close(r.pages)
		if r.err = r.list(ctx, source); r.err == nil {
			r.err = source.Clients.Identity.Check(ctx)
		}
	})
	r.stop = func() {
		cancel()
		lister.Wait()
	}
}

// next is where the next page comes from; nil if there is none.
func (r *auditRun) next() <-chan []listwatch.Listed {
	if r == nil || r.complete {
		return nil
	}
	return r.pages
}

// list sends the pages of a list. An API server that finds its own cache wrong (feature DetectCacheInconsistency, every
// 5 to 8 minutes) serves lists at an exact revision from etcd from then on.
func (r *auditRun) list(ctx context.Context, source *listwatch.Source) (err error) {
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
	if r.at == 0 {
		if r.at, err = source.Revision(ctx); err != nil {
			return err
		}
	}
	_, err = source.ListMetadata(ctx, &listwatch.Listing{At: r.at}, func(m listwatch.Listed) error {
		if page = append(page, m); len(page) < batchSize {
			return nil
		}
		return send()
	})
	if err != nil {
		return err
	}
	return send()
}

// compare compares one page of an audit with the index, and what the list lacks once it is over.
func (r *auditRun) compare(page []listwatch.Listed, more bool, x *index.Index, f *selection.Filter, rejected *rejections) {
	for _, d := range page {
		r.objects++
		e := x.Get(d.Namespace, d.Name)
		if e != nil {
			e.Sweep = r.number
		}
		k := x.Known(e, d.UID)
		same := k.Object == decide.Same && k.Newest == d.RV
		later := k.Newest > r.at || r.ended[index.Key(d.Namespace, d.Name)] > r.at // than the list
		readable := d.UID != "" && d.RV != 0                                       // else the object is in the dead letters of the source
		if !same && !later && readable && !rejected.has(d.UID, d.RV) {
			r.differing++
		}
	}
	if more {
		return
	}
	if r.complete = true; r.err != nil {
		return
	}
	for e := range x.All() { // those of a namespace that leaves are in no list
		if e.Sweep != r.number && e.RV <= r.at && f.Covers(x.Namespace(e)) {
			r.differing++
		}
	}
}

// end notes that the watch has brought the end of an object at revision rv. It does nothing without a run.
func (r *auditRun) end(namespace, name string, rv uint64) {
	if r != nil && len(r.ended) < maxEnded {
		r.ended[index.Key(namespace, name)] = rv
	}
}

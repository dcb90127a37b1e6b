package dynwatch

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/informd/informd/internal/display"
	"github.com/informd/informd/pkg/dynwatch/internal/frame"
	"github.com/informd/informd/pkg/dynwatch/internal/index"
	"github.com/informd/informd/pkg/dynwatch/internal/listwatch"
	"github.com/informd/informd/pkg/event"
)

// An audit compares the index with a list, and both can come from one wrong watch cache:
// since Kubernetes 1.34 consistent lists, and lists at an exact revision, are served by it
// (k8s.io/apiserver pkg/storage/cacher/delegator.go). A list of one name at an exact
// revision is not recursive and always served by etcd (Cacher.ShouldDelegateExactRV in
// cacher.go, and CacheDelegator.GetList). So each audit reads some names that way, at the
// revision of its list, and compares them with what the list showed. A difference convicts
// the API server.
//
// Objects that neither a list nor a watch shows have no name to ask for. Two facts help:
// names that were deleted lately are asked for, as many return; and an API server that
// finds its own cache wrong (feature DetectCacheInconsistency, every 5 to 8 minutes)
// serves lists at an exact revision from etcd from then on. Therefore the list of an audit
// is at an exact revision.

const (
	// sampleListed is how many objects of a list are read from etcd, sampleRecent how many
	// names that had events lately.
	sampleListed, sampleRecent = 32, 16
	// keptMismatches bounds the mismatches that are shown of a target.
	keptMismatches = 20
	// distrust is for how long the lists of a target are not believed about deletions,
	// after the API server was convicted.
	distrustFor = 24 * time.Hour
	// convictLines is how many mismatches of a target are logged by name in an hour. All are
	// counted.
	convictLines = 100
)

// Mismatch is an object that an API server showed otherwise than etcd holds it.
type Mismatch struct {
	// Server is the address of the API server.
	Server          string
	Namespace, Name string
	// Revision is that at which both were asked. UID and ResourceVersion are those that
	// etcd holds, ListedUID and Listed those that the API server showed. A resourceVersion
	// of 0 stands for no object.
	Revision        uint64
	UID             string
	ResourceVersion uint64
	ListedUID       string
	Listed          uint64
	At              time.Time
}

// recent is a ring of names that had events lately.
type recent struct {
	names [sampleRecent]struct{ namespace, name string }
	next  int
}

func (r *recent) add(namespace, name string) {
	r.names[r.next%sampleRecent] = struct{ namespace, name string }{namespace, name}
	r.next++
}

// sample is what an audit compares with etcd. It belongs to the goroutine that lists.
type sample struct {
	// recent are names that had events before the list, with what it shows of them.
	recent map[string]listwatch.Listed
	// listed are objects of the list, each with the same chance.
	listed []listwatch.Listed
	seen   int
	// wrong are those that etcd holds in another state, with that state; pending are those
	// of them that the stream has yet to get, once convicted is set.
	wrong     []mismatched
	pending   []*mismatched
	convicted bool
}

// mismatched is an object as a list showed it and as etcd holds it.
type mismatched struct {
	listed listwatch.Listed
	now    present
	// asked: etcd was asked whether the deletion is behind the watch.
	asked bool
}

func (t *target) newSample() *sample {
	s := &sample{recent: make(map[string]listwatch.Listed)}
	for _, n := range t.recent.names {
		if n.name != "" && t.coverage.Filter.Covers(n.namespace) {
			s.recent[index.Key(n.namespace, n.name)] = listwatch.Listed{Namespace: n.namespace, Name: n.name}
		}
	}
	return s
}

// take notes a listed object.
func (s *sample) take(d listwatch.Listed) {
	if _, ok := s.recent[index.Key(d.Namespace, d.Name)]; ok {
		s.recent[index.Key(d.Namespace, d.Name)] = d
		return
	}
	s.seen++
	if len(s.listed) < sampleListed {
		s.listed = append(s.listed, d)
	} else if i := rand.IntN(s.seen); i < sampleListed { //nolint:gosec // a sample, not a secret
		s.listed[i] = d
	}
}

// compare reads the sample from etcd at the revision of the list. A server that cannot
// read exact revisions is not compared.
func (s *sample) compare(ctx context.Context, source *listwatch.Source, rv uint64) error {
	for _, d := range s.recent {
		s.listed = append(s.listed, d)
	}
	for _, d := range s.listed {
		o, there, err := source.MatchAt(ctx, d.Namespace, d.Name, rv)
		if listwatch.Expired(err) || listwatch.Unsupported(err) {
			return nil // there is nothing to compare with
		}
		if _, bad := errors.AsType[*frame.Malformed](err); bad {
			continue // it is in no list either
		}
		if err != nil {
			return err
		}
		if same := there == (d.RV != 0) && (!there || o.UID == d.UID && o.ResourceVersion == d.RV); !same {
			s.wrong = append(s.wrong, mismatched{listed: d, now: present{object: o, there: there}})
		}
	}
	return nil
}

// convict notes that an API server has shown an object otherwise than etcd holds it.
func (t *target) convict(d listwatch.Listed, o *frame.Object, there bool, rv uint64) {
	w := mismatched{listed: d, now: present{there: there}}
	if there && o != nil { // nil: it cannot be passed on
		w.now.object = *o
	}
	m := w.mismatch(t.clients.Config.Host, rv)
	t.distrustUntil = m.At.Add(distrustFor)
	t.status.mismatched(m)
	if m.At.Sub(t.convictions.since) > time.Hour {
		t.convictions.since, t.convictions.count = m.At, 0
	}
	if t.convictions.count++; t.convictions.count > convictLines {
		if t.convictions.count == convictLines+1 {
			t.logger.Error("API server disagrees with etcd on many objects",
				"server", m.Server, "revision", m.Revision, "next", "restart that kube-apiserver; further objects are counted, and not logged for an hour")
		}
		return
	}
	t.logger.Error("API server disagrees with etcd on an object", "next", "restart that kube-apiserver: its watch cache is wrong",
		"server", m.Server, "namespace", m.Namespace, "name", m.Name, "revision", m.Revision,
		"uid", m.UID, "resource_version", m.ResourceVersion, "listed_uid", m.ListedUID, "listed", m.Listed)
}

// repairAll takes note of what a sample has found, at once, and announces the states that
// the stream lacks, each as soon as the watch has passed it.
func (t *target) repairAll(ctx context.Context, a *audit) error {
	s := a.sample
	if len(s.wrong) == 0 || len(t.undecided) > 0 {
		return nil
	}
	if !s.convicted {
		s.convicted = true
		for i := range s.wrong {
			t.convict(s.wrong[i].listed, &s.wrong[i].now.object, s.wrong[i].now.there, a.rv)
			s.pending = append(s.pending, &s.wrong[i])
		}
	}
	before := a.repaired
	err := t.repairReady(ctx, a)
	if a.repaired == before {
		return err
	}
	return errors.Join(err, t.declareRepair(ctx)) // also if a later object could not be read
}

// repairReady announces the states that the watch has passed. The others stay pending.
func (t *target) repairReady(ctx context.Context, a *audit) error {
	var rest []*mismatched
	for i, w := range a.sample.pending {
		ready, err := t.canRepair(ctx, a, w)
		lacking := false
		if err == nil && ready {
			lacking, err = t.repair(ctx, w, min(a.rv, t.cursor))
		}
		if err != nil {
			a.sample.pending = append(rest, a.sample.pending[i:]...)
			return err
		}
		if !ready {
			rest = append(rest, w)
		}
		if lacking {
			a.repaired++
		}
	}
	a.sample.pending = rest
	return nil
}

// canRepair reports whether the watch has passed the state that etcd holds of an object.
func (t *target) canRepair(ctx context.Context, a *audit, w *mismatched) (bool, error) {
	switch {
	case t.cursor >= a.rv:
		return true, nil
	case w.now.there:
		return t.cursor >= w.now.object.ResourceVersion, nil
	case w.asked:
		return false, nil
	}
	w.asked = true
	_, there, err := t.source.MatchAt(ctx, w.listed.Namespace, w.listed.Name, t.cursor)
	if listwatch.Expired(err) || listwatch.Unsupported(err) {
		return false, nil
	}
	return !there, err
}

// declareRepair declares that states may be missing between the last audit and this one.
func (t *target) declareRepair(ctx context.Context) error {
	gap := event.GapInfo{From: t.audits.clean, To: t.cursor, Reason: reasonAudit, Recovered: event.RecoveredState}
	if err := t.emitGap(ctx, gap); err != nil {
		return err
	}
	return t.flush(ctx)
}

// repair announces the state that etcd holds of an object at revision rv, if the index
// holds an older one. It reports whether it does.
func (t *target) repair(ctx context.Context, w *mismatched, rv uint64) (bool, error) {
	e, o := t.index.Get(w.listed.Namespace, w.listed.Name), &w.now.object
	if e != nil && e.RV > rv {
		return false, nil // the watch has brought a newer one
	}
	delete(t.audits.running.suspects, index.Key(w.listed.Namespace, w.listed.Name))
	switch {
	case !w.now.there && e == nil:
		return false, nil
	case !w.now.there:
		return true, t.endRepaired(ctx, e, rv)
	case e == nil && t.endedAt(o.Namespace, o.Name) > o.ResourceVersion:
		return false, nil
	case e != nil && t.index.IsUID(e, o.UID) && t.index.Newest(e) >= o.ResourceVersion:
		return false, t.checkRead(ctx, e, listwatch.ListedOf(o))
	case e == nil && rv < t.cursor: // it may have ended since
		now, there, err := t.source.MatchAt(ctx, o.Namespace, o.Name, t.cursor)
		if err != nil || !there {
			if listwatch.Expired(err) || listwatch.Unsupported(err) {
				err = nil // the next audit finds it again
			}
			return false, err
		}
		o, rv = &now, t.cursor
	}
	if e == nil {
		if err := t.checkRead(ctx, nil, listwatch.ListedOf(o)); err != nil {
			return false, err
		}
	}
	s := t.newSweep(sweep{at: rv, newcomer: event.Added, replay: true})
	return true, t.observe(ctx, s, o)
}

// endRepaired ends what etcd does not hold any more.
func (t *target) endRepaired(ctx context.Context, e *index.Entry, rv uint64) error {
	trusted := t.distrustUntil
	t.distrustUntil = time.Time{} // etcd has just said so
	defer func() { t.distrustUntil = trusted }()
	return t.endAbsent(ctx, e, rv)
}

// spared reports whether an entry that a list lacks is still there: after a conviction,
// lists are not believed about deletions.
func (t *target) spared(ctx context.Context, e *index.Entry, rv uint64) (bool, error) {
	if time.Now().After(t.distrustUntil) {
		return false, nil
	}
	t.status.beatNow() // a list can lack many
	o, there, err := t.stillSelected(ctx, e, rv)
	if listwatch.Expired(err) || listwatch.Unsupported(err) {
		o, there, err = t.stillSelected(ctx, e, 0)
	}
	if err == nil && there {
		t.convict(listwatch.Listed{Namespace: t.index.Namespace(e), Name: t.index.Name(e)}, o, true, rv)
	}
	return there, err
}

// mismatches are what the sample of an audit has found, at most as many as are kept of a
// target.
func (a *audit) mismatches(server string) (all []Mismatch) {
	for i := range a.sample.wrong[:min(len(a.sample.wrong), keptMismatches)] {
		all = append(all, a.sample.wrong[i].mismatch(server, a.rv))
	}
	return all
}

func (w *mismatched) mismatch(server string, rv uint64) Mismatch {
	m := Mismatch{
		Server: display.Address(server), Namespace: w.listed.Namespace, Name: w.listed.Name, Revision: rv,
		ListedUID: w.listed.UID, Listed: w.listed.RV, At: time.Now(),
	}
	if w.now.there {
		m.UID, m.ResourceVersion = w.now.object.UID, w.now.object.ResourceVersion
	}
	return m
}

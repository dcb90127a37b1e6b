package dynwatch

import (
	"context"
	"errors"
	"time"

	"github.com/informd/informd/internal/display"
	"github.com/informd/informd/pkg/dynwatch/internal/audit"
	"github.com/informd/informd/pkg/dynwatch/internal/frame"
	"github.com/informd/informd/pkg/dynwatch/internal/index"
	"github.com/informd/informd/pkg/dynwatch/internal/listwatch"
	"github.com/informd/informd/pkg/dynwatch/internal/recovery"
	"github.com/informd/informd/pkg/event"
)

const (
	// keptMismatches bounds the mismatches that are shown of a target.
	keptMismatches = 20
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

// convict notes that an API server has shown an object otherwise than etcd holds it.
func (t *decider) convict(d listwatch.Listed, o *frame.Object, there bool, rv uint64) {
	w := audit.Wrong{Listed: d, There: there}
	if there && o != nil { // nil: it cannot be passed on
		w.Object = *o
	}
	m := mismatch(&w, t.clients.Config.Host, rv)
	t.status.mismatched(m)
	if count := t.trust.Convict(m.At); count > convictLines {
		if count == convictLines+1 {
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
func (t *auditor) repairAll(ctx context.Context, a *audit.Run) error {
	if len(a.Wrong) == 0 || len(t.undecided) > 0 {
		return nil
	}
	if !a.Convicted {
		a.Convicted, a.Pending = true, a.Wrong
		for _, w := range a.Wrong {
			t.convict(w.Listed, &w.Object, w.There, a.RV)
		}
	}
	before := a.Repaired
	err := t.repairReady(ctx, a)
	if a.Repaired == before {
		return err
	}
	return errors.Join(err, t.declareRepair(ctx)) // also if a later object could not be read
}

// repairReady announces the states that the watch has passed. The others stay pending.
func (t *auditor) repairReady(ctx context.Context, a *audit.Run) error {
	var rest []*audit.Wrong
	for i, w := range a.Pending {
		ready, err := a.Passed(ctx, t.source, w, t.cursor)
		lacking := false
		if err == nil && ready {
			lacking, err = t.repair(ctx, w, min(a.RV, t.cursor))
		}
		if err != nil {
			a.Pending = append(rest, a.Pending[i:]...)
			return err
		}
		if !ready {
			rest = append(rest, w)
		}
		if lacking {
			a.Repaired++
		}
	}
	a.Pending = rest
	return nil
}

// declareRepair declares that states may be missing between the last audit and this one.
func (t *auditor) declareRepair(ctx context.Context) error {
	gap := event.GapInfo{From: t.clean, To: t.cursor, Reason: recovery.ReasonAudit, Recovered: event.RecoveredState}
	if err := t.EmitGap(ctx, gap); err != nil {
		return err
	}
	return t.Flush(ctx)
}

// repair announces the state that etcd holds of an object at revision rv, if the index
// holds an older one. It reports whether it does.
func (t *auditor) repair(ctx context.Context, w *audit.Wrong, rv uint64) (bool, error) {
	e, o := t.index.Get(w.Listed.Namespace, w.Listed.Name), &w.Object
	if e != nil && e.RV > rv {
		return false, nil // the watch has brought a newer one
	}
	delete(t.running.Suspects, index.Key(w.Listed.Namespace, w.Listed.Name))
	switch {
	case !w.There && e == nil:
		return false, nil
	case !w.There:
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
func (t *auditor) endRepaired(ctx context.Context, e *index.Entry, rv uint64) error {
	trust := t.trust
	t.trust = audit.Trust{} // etcd has just said so
	defer func() { t.trust = trust }()
	return t.endAbsent(ctx, e, rv)
}

// spared reports whether an entry that a list lacks is still there: after a conviction,
// lists are not believed about deletions.
func (t *decider) spared(ctx context.Context, e *index.Entry, rv uint64) (bool, error) {
	if !t.trust.Lost() {
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
func mismatches(a *audit.Run, server string) (all []Mismatch) {
	for _, w := range a.Wrong[:min(len(a.Wrong), keptMismatches)] {
		all = append(all, mismatch(w, server, a.RV))
	}
	return all
}

func mismatch(w *audit.Wrong, server string, rv uint64) Mismatch {
	m := Mismatch{
		Server: display.Address(server), Namespace: w.Listed.Namespace, Name: w.Listed.Name, Revision: rv,
		ListedUID: w.Listed.UID, Listed: w.Listed.RV, At: time.Now(),
	}
	if w.There {
		m.UID, m.ResourceVersion = w.Object.UID, w.Object.ResourceVersion
	}
	return m
}

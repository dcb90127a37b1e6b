package missing

import (
	"context"
	"errors"
	"time"

	"github.com/informd/informd/internal/display"
	"github.com/informd/informd/pkg/dynwatch/internal/frame"
	"github.com/informd/informd/pkg/dynwatch/internal/index"
	"github.com/informd/informd/pkg/dynwatch/internal/listwatch"
	"github.com/informd/informd/pkg/dynwatch/internal/status"
)

// distrustFor is for how long the lists of a target are not believed about deletions,
// after the API server was convicted.
const distrustFor = 24 * time.Hour

// Trust is how far lists of an API server are believed. It was convicted if it showed an object
// otherwise than etcd holds it.
type Trust struct {
	// until is up to when lists are not believed about deletions.
	until time.Time
	// since is the begin of the hour in which count convictions were made.
	since time.Time
	count int
}

// Convict notes a conviction, and returns how many there were within an hour.
func (t *Trust) Convict(at time.Time) (count int) {
	t.until = at.Add(distrustFor)
	if at.Sub(t.since) > time.Hour {
		t.since, t.count = at, 0
	}
	t.count++
	return t.count
}

// Lost reports whether lists are not believed about deletions.
func (t *Trust) Lost() bool { return !time.Now().After(t.until) }

// ConvictLines is how many mismatches of a target are logged by name in an hour. All are
// counted.
const ConvictLines = 100

// Convict notes that an API server has shown an object otherwise than etcd holds it.
func (t *Decider) Convict(d listwatch.Listed, o *frame.Object, there bool, rv uint64) {
	m := t.MismatchOf(d, o, there, rv)
	t.Status.Mismatch(m)
	if count := t.Trust.Convict(m.At); count > ConvictLines {
		if count == ConvictLines+1 {
			t.Logger.Error("API server disagrees with etcd on many objects",
				"server", m.Server, "revision", m.Revision, "next", "restart that kube-apiserver; further objects are counted, and not logged for an hour")
		}
		return
	}
	t.Logger.Error("API server disagrees with etcd on an object", "next", "restart that kube-apiserver: its watch cache is wrong",
		"server", m.Server, "namespace", m.Namespace, "name", m.Name, "revision", m.Revision,
		"uid", m.UID, "resource_version", m.ResourceVersion, "listed_uid", m.ListedUID, "listed", m.Listed)
}

// MismatchOf describes an object that was listed at revision rv. o is what etcd holds, nil
// if that cannot be read.
func (t *Decider) MismatchOf(d listwatch.Listed, o *frame.Object, there bool, rv uint64) status.Mismatch {
	m := status.Mismatch{
		Server: display.Address(t.Clients.Config.Host), Namespace: d.Namespace, Name: d.Name, Revision: rv,
		ListedUID: d.UID, Listed: d.RV, At: time.Now(),
	}
	if there && o != nil {
		m.UID, m.ResourceVersion = o.UID, o.ResourceVersion
	}
	return m
}

// Spared reports whether an entry that a list lacks is still there: after a conviction,
// lists are not believed about deletions.
func (t *Decider) Spared(ctx context.Context, e *index.Entry, rv uint64) (bool, error) {
	if !t.Trust.Lost() {
		return false, nil
	}
	t.Status.Alive() // a list can lack many
	o, there, err := t.stillSelected(ctx, e, rv)
	if listwatch.Expired(err) || listwatch.Unsupported(err) {
		o, there, err = t.stillSelected(ctx, e, 0)
	}
	if errors.Is(err, listwatch.ErrLasting) {
		return true, nil // etcd does not confirm the deletion
	}
	if err == nil && there {
		t.Convict(listwatch.Listed{Namespace: t.Index.Namespace(e), Name: t.Index.Name(e)}, o, true, rv)
	}
	return there, err
}

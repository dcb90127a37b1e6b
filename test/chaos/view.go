package chaos

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/informd/informd/examples/materialised-view/view"
)

// viewTime is how long the view may take to read the rest of the stream.
const viewTime = time.Minute

// Viewer runs the example of a materialised view on the stream of the nats sink: one
// more consumer, which holds not events but what they amount to.
type Viewer struct {
	conn    *nats.Conn
	view    *view.View
	running sync.WaitGroup
	cancel  context.CancelFunc
}

// NewViewer starts a view of the stream. The caller has to Close it.
func NewViewer(url string) (*Viewer, error) {
	conn, err := nats.Connect(url, nats.MaxReconnects(-1), nats.ReconnectWait(pollInterval), nats.RetryOnFailedConnect(true))
	if err != nil {
		return nil, fmt.Errorf("start the view: %w", err)
	}
	v, err := view.New(conn, view.Options{Stream: busStream})
	if err != nil {
		conn.Close()
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	viewer := &Viewer{conn: conn, view: v, cancel: cancel}
	viewer.running.Go(func() { _ = v.Run(ctx) }) // ends with Close
	return viewer, nil
}

// Close ends the reading.
func (v *Viewer) Close() error {
	v.cancel()
	v.running.Wait()
	v.conn.Close()
	return nil
}

// CatchUp waits until the view has read the stream to its end, or for long enough.
func (v *Viewer) CatchUp(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, viewTime)
	defer cancel()
	js, err := jetstream.New(v.conn)
	if err != nil {
		return err
	}
	stream, err := js.Stream(ctx, busStream)
	if err != nil {
		return fmt.Errorf("find the end of the view's stream: %w", err)
	}
	info := stream.CachedInfo()
	for ; ctx.Err() == nil; pause(ctx, pollInterval) {
		if created, read := v.view.Position(); created.Equal(info.Created) && read >= info.State.LastSeq {
			return nil
		}
	}
	return nil // what it lacks then shows in its rows
}

// Rows are the objects that the view has of the targets, by key.
func (v *Viewer) Rows(targets map[string]bool) map[string]view.Object {
	rows := make(map[string]view.Object)
	for k, o := range v.view.Objects() {
		if target := targetName(k.Group, k.Resource); targets[target] {
			rows[objectKey(target, k.Namespace, k.Name)] = o
		}
	}
	return rows
}

// checkView is I17: the rows are the objects that etcd holds, besides those that a gap allows to
// be dropped without an end.
func checkView(truth *Truth, targets map[string]bool, rows map[string]view.Object, dropped map[string]bool) []Violation { //nolint:gocognit // one rule after the other
	var all []Violation
	c := newSinkCheck(truth, &Sink{})
	fail := func(uid string, rv uint64, format string, args ...any) {
		all = append(all, Violation{Invariant: "I17", Sink: "view", UID: uid, RV: rv, Text: fmt.Sprintf(format, args...)})
	}
	unsettled := make(map[string]bool) // keys of objects that changed too late to count
	living := make(map[string]*Object)
	for _, o := range truth.sorted() {
		if last, ok := o.last(); ok && !truth.due(last) {
			unsettled[o.key()] = true
		}
		if r, ok := o.settled(truth); ok && !r.Deleted && targets[o.Target] && !o.uncarriable() && c.selected(o, r) {
			living[o.key()] = o
		}
	}
	for key, o := range living {
		r, _ := o.settled(truth)
		row, ok := rows[key]
		switch {
		case unsettled[key]:
		case !ok:
			fail(o.UID, r.RV, "%s exists at revision %d, but the view has no row", key, r.RV)
		case truth.Rules[o.Target].filters:
			if b, err := decodeObject(row.JSON); err != nil || row.UID != o.UID || b.gate != r.Gate {
				fail(o.UID, r.RV, "the row of %s is of uid %s at revision %d, which differs from etcd's at %d (%v)", key, row.UID, row.At.ResourceVersion, r.RV, err)
			}
		case row.UID != o.UID || row.At.ResourceVersion != r.RV:
			fail(o.UID, r.RV, "%s exists at revision %d, but the row is of uid %s at revision %d", key, r.RV, row.UID, row.At.ResourceVersion)
		default:
			if b, err := decodeObject(row.JSON); err != nil || b.hash != r.Hash {
				fail(o.UID, r.RV, "the row of %s holds other content than etcd at revision %d (%v)", key, r.RV, err)
			}
		}
	}
	for key, row := range rows {
		if living[key] == nil && !unsettled[key] && !dropped[row.UID] {
			fail(row.UID, row.At.ResourceVersion, "%s does not exist, but the view has a row at revision %d", key, row.At.ResourceVersion)
		}
	}
	return all
}

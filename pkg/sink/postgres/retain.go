package postgres

import (
	"context"
	_ "embed"
	"strconv"
	"time"
)

const (
	// maxPerObject bounds retention.perObject: for each row, that many others are counted.
	maxPerObject = 100_000
	// retainNewest is how many rows stay in any case, the newest of the cluster: after a crash their events may come
	// again, and without their rows an old state would be taken for a new one.
	retainNewest = 10_000
	// retainRows is how many rows of history one step looks at.
	retainRows = 2_000
	// retainPause is between the end of one round through history and the next.
	retainPause = 5 * time.Minute
)

//go:embed sql/retain.sql
var retainSQL string

// retainer deletes old rows of history in rounds, one step after each transaction. So it takes its turn
// with the events, and needs no connection of its own.
type retainer struct {
	limits Retention
	next   int64     // the position where the next step begins
	before string    // the time before which rows are old, the same throughout a round: a deletion must not go alone
	rests  time.Time // until then
}

// step looks at the next rows. Whatever fails, a later step repeats: an event that was written stays so.
func (r *retainer) step(ctx context.Context, t *tables) {
	if r.limits == (Retention{}) || time.Now().Before(r.rests) {
		return
	}
	if r.next == 0 {
		if r.before = "-infinity"; r.limits.Age > 0 {
			r.before = time.Now().Add(-r.limits.Age).UTC().Format(time.RFC3339Nano)
		}
	}
	results, err := t.exec(ctx, statement{retainSQL, []string{
		t.env.Cluster, strconv.FormatInt(r.next, 10), strconv.Itoa(retainRows), r.before, strconv.Itoa(r.limits.PerObject),
		strconv.FormatInt(t.position-retainNewest, 10),
	}})
	if err != nil {
		t.env.Logger.Warn("old rows of history not deleted; trying again later", "err", explain(err))
		r.rests = time.Now().Add(retainPause)
		return
	}
	last := results[0].Rows[0][0]
	if last == nil { // the end
		r.next, r.rests = 0, time.Now().Add(retainPause)
		return
	}
	if position, err := strconv.ParseInt(string(last), 10, 64); err == nil {
		r.next = position + 1
	}
}

package postgres

import (
	"context"
	"crypto/rand"
	_ "embed"
	"encoding/json"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/informd/informd/pkg/event"
	"github.com/informd/informd/pkg/sink"
)

const (
	// transactionTimeout bounds one transaction, with the connection that it may need: at the end of a
	// snapshot it may delete very many rows. sql/limits.sql has it, too.
	transactionTimeout = 5 * time.Minute
	// otherLog is how long the tables belong to the log that wrote them last. Another one waits: two informds that write
	// them in turn would each take the events of the other for a loss.
	otherLog = 30 * time.Second
)

var (
	//go:embed sql/limits.sql
	limitsSQL string
	//go:embed sql/place.sql
	placeSQL string
	//go:embed sql/held.sql
	heldSQL string
	//go:embed sql/advance.sql
	advanceSQL string
)

// tables is the sink: the tables of one schema.
type tables struct {
	options *Config
	env     sink.Env

	conn     *pgconn.PgConn // nil before the first Write and after a failure
	prepared bool           // the tables exist
	buffer   []byte
	row      []field
	retain   retainer
	// identity and position are those of the last transaction.
	identity string
	position int64
}

func newTables(c *Config, env sink.Env) *tables {
	return &tables{options: c, env: env, retain: retainer{limits: c.Retention}}
}

// Write implements [sink.Sink].
func (t *tables) Write(ctx context.Context, batch []event.Event) (int, error) {
	return t.WriteAt(ctx, batch, sink.Positions{})
}

// WriteAt implements [sink.Positioned]. A batch is one transaction, or, if the server refuses that for what
// is in it, one for each half: down to the events that it refuses.
func (t *tables) WriteAt(ctx context.Context, batch []event.Event, at sink.Positions) (int, error) {
	if len(batch) == 0 {
		return 0, nil
	}
	if at.Seqs == nil {
		at.Seqs = make([]uint64, len(batch))
	}
	err := t.transact(ctx, batch, at, false)
	switch {
	case err == nil:
		return len(batch), nil
	case !refused(err):
		return 0, explain(err)
	case len(batch) == 1:
		return t.writeRefused(ctx, batch, at, err)
	}
	half := len(batch) / 2
	first, second := at, at
	first.Seqs, second.Seqs = at.Seqs[:half], at.Seqs[half:]
	n, err := t.WriteAt(ctx, batch[:half], first)
	if err == nil {
		n, err = t.WriteAt(ctx, batch[half:], second)
		n += half
	}
	return n, err
}

// writeRefused writes a single event that the server has refused as text, if the event is the reason.
func (t *tables) writeRefused(ctx context.Context, one []event.Event, at sink.Positions, reason error) (int, error) {
	if !unstorable(reason) {
		return 0, sink.Unknown(explain(reason))
	}
	err := t.transact(ctx, one, at, true)
	switch {
	case err == nil:
		return 1, nil
	case refused(err) && unstorable(err):
		return 0, sink.Permanent(fmt.Errorf("the server refuses the event: %w", explain(err)))
	}
	return 0, explain(err)
}

// place is the row of the table cursors, locked until the end of the transaction.
type place struct {
	sink, identity, log string
	sequence            uint64
	position            int64
	age                 int // in seconds, since the last batch
	// held are the ids of the batch that history has.
	held map[string]bool
	// lost: the tables lack events that they had.
	lost bool
}

// transact writes the events, what follows from them, and the position in one transaction. Raw has it
// store the events as text.
func (t *tables) transact(ctx context.Context, batch []event.Event, at sink.Positions, raw bool) error {
	ctx, cancel := context.WithTimeout(ctx, transactionTimeout)
	defer cancel()
	if err := t.connected(ctx); err != nil {
		return sink.WithContext(ctx, err)
	}
	p, err := t.begin(ctx, batch, at)
	if err == nil {
		err = t.write(ctx, &p, batch, at.Seqs, raw)
	}
	if err != nil {
		t.rollback(ctx)
		if hasCode(err, "42P01", "3F000", "25006") { // the tables are gone, or another server takes the writes by now
			t.prepared = false
			_ = t.disconnect(ctx) // the next attempt waits for its end
		}
		return err
	}
	if t.env.Found != nil {
		if p.lost { // informd may know no identity of before, if the sink had another type
			t.env.Found("")
		}
		t.env.Found(p.identity)
	}
	t.identity, t.position = p.identity, p.position
	t.retain.step(ctx, t)
	return nil
}

// begin begins a transaction and compares the position of the destination with what informd knows.
func (t *tables) begin(ctx context.Context, batch []event.Event, at sink.Positions) (place, error) {
	ids := make([]string, len(batch))
	for i := range batch {
		ids[i] = clean(batch[i].ID)
	}
	given, err := json.Marshal(ids)
	if err != nil {
		return place{}, fmt.Errorf("list the ids: %w", err)
	}
	results, err := t.exec(ctx,
		statement{sql: "BEGIN"},
		statement{sql: limitsSQL},
		statement{placeSQL, []string{t.env.Cluster, t.env.Name, rand.Text(), at.Log}},
		statement{heldSQL, []string{t.env.Cluster, string(given)}})
	if err != nil {
		return place{}, fmt.Errorf("begin a transaction: %w", err)
	}
	rows := results[len(results)-2].Rows
	if len(rows) != 1 {
		return place{}, fmt.Errorf("read the position: the table cursors of schema %s takes no row for the cluster %s: look for a trigger or a rule of yours",
			t.options.Schema, t.env.Cluster)
	}
	row := rows[0]
	p := place{sink: string(row[0]), identity: string(row[1]), log: string(row[2]), held: map[string]bool{}}
	for _, held := range results[len(results)-1].Rows {
		p.held[string(held[0])] = true
	}
	if _, err := fmt.Sscan(string(row[3])+" "+string(row[4])+" "+string(row[5]), &p.sequence, &p.position, &p.age); err != nil {
		return p, fmt.Errorf("read the position: %w", err)
	}
	if p.sink != t.env.Name {
		return p, fmt.Errorf("schema %s has the events of the cluster %s from the sink %q: set schema to another name; to continue the tables under this sink, "+
			"update the column sink of the table cursors", t.options.Schema, t.env.Cluster, p.sink)
	}
	if at.Log != "" && p.log != at.Log && p.position != t.position && p.age < int(otherLog.Seconds()) {
		return p, fmt.Errorf("another informd, or this one with another journal.dir, wrote events of the cluster %s to schema %s %d s ago: "+
			"two of them need two names of cluster, or two schemas", t.env.Cluster, t.options.Schema, p.age)
	}
	t.compare(&p, at)
	return p, nil
}

// compare notices a log that the tables do not know, and tables that have lost events.
func (t *tables) compare(p *place, at sink.Positions) {
	if at.Log != "" && p.log != at.Log {
		p.log, p.sequence = at.Log, 0
	}
	if at.Acknowledged <= p.sequence && (p.identity != t.identity || p.position >= t.position) {
		return
	}
	t.env.Logger.Warn("tables lack events that they had; informd repeats every object", "schema", t.options.Schema,
		"has", p.sequence, "had", at.Acknowledged, "next", "their history has a gap: check backups and replicas of the database")
	p.identity, p.lost = rand.Text(), true
	p.sequence = max(p.sequence, at.Acknowledged) // what follows, perhaps without a sequence, is no other loss
}

// rollback ends a transaction that has failed. It gives up a connection that does not answer.
func (t *tables) rollback(ctx context.Context) {
	if t.conn == nil || t.conn.IsClosed() {
		return
	}
	if _, err := t.exec(ctx, statement{sql: "ROLLBACK"}); err != nil || t.conn.TxStatus() != 'I' {
		// The next transaction makes another connection, or says why not.
		_ = t.disconnect(ctx)
	}
}

// Close implements [sink.Sink].
func (t *tables) Close(ctx context.Context) error { return t.disconnect(ctx) }

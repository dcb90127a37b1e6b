package postgres

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/informd/informd/pkg/event"
	"github.com/informd/informd/pkg/sink"
)

const (
	// transactionTimeout bounds one transaction, with the connection that it may need: at the end of a
	// snapshot it may delete very many rows. The server ends what takes longer by itself.
	transactionTimeout = 5 * time.Minute
	// maxKey is the most bytes of what an index has of an event: a page of PostgreSQL takes some more.
	maxKey = 2_500
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
// is in it, one for each event.
func (t *tables) WriteAt(ctx context.Context, batch []event.Event, at sink.Positions) (int, error) {
	if len(batch) == 0 {
		return 0, nil
	}
	if at.Seqs == nil {
		at.Seqs = make([]uint64, len(batch))
	}
	for i := range batch {
		if err := checkKey(t.env.Cluster, &batch[i]); err != nil {
			if i == 0 {
				return 0, err
			}
			n, writeErr := t.WriteAt(ctx, batch[:i], part(at, 0, i))
			return n, cmp.Or(writeErr, err)
		}
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
	for i := range batch {
		if _, err := t.WriteAt(ctx, batch[i:i+1], part(at, i, i+1)); err != nil {
			return i, err
		}
	}
	return len(batch), nil
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
	case unstorable(err):
		return 0, sink.Permanent(fmt.Errorf("the server refuses the event: %w", explain(err)))
	}
	return 0, explain(err)
}

func part(at sink.Positions, from, to int) sink.Positions {
	at.Seqs = at.Seqs[from:to]
	return at
}

// checkKey refuses an event that no index can have.
func checkKey(cluster string, e *event.Event) error {
	if size := len(cluster) + len(e.Group) + len(e.Resource) + len(e.Namespace) + len(e.Name); max(size, len(e.ID), len(e.Target)) > maxKey {
		return sink.Permanent(fmt.Errorf("the names of the object have %d bytes, more than the %d that an index of PostgreSQL takes", size, maxKey))
	}
	return nil
}

// otherLog is how long the tables belong to the log that wrote them last. Another one waits: two informds that write
// them in turn would each take the events of the other for a loss.
const otherLog = 30 * time.Second

// place is the row of the table cursors, locked until the end of the transaction.
type place struct {
	sink, identity, log string
	sequence            uint64
	position            int64
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
		return orContext(ctx, err)
	}
	p, err := t.begin(ctx, batch, at)
	if err == nil {
		err = t.write(ctx, &p, batch, at.Seqs, raw)
	}
	if err != nil {
		t.rollback(ctx)
		if ofClass(err, "42P01", "3F000", "25006") { // the tables are gone, or another server takes the writes by now
			t.prepared = false
			return errors.Join(err, t.disconnect(ctx))
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
	results, err := t.exec(ctx,
		statement{sql: "BEGIN"},
		// A connection that is cut off without a word must not hold the lock of the row for long.
		statement{sql: "SET LOCAL idle_in_transaction_session_timeout = '30s'"},
		statement{sql: "SET LOCAL lock_timeout = '40s'"},
		statement{sql: fmt.Sprintf("SET LOCAL statement_timeout = '%ds'", int(transactionTimeout.Seconds()))},
		statement{sql: "SELECT set_config('synchronous_commit', 'on', true) WHERE current_setting('synchronous_commit') = 'off'"},
		statement{
			sql: `INSERT INTO schema.cursors (cluster, sink, identity, log, sequence, position) VALUES ($1, $2, $3, $4, 0, 0)
				ON CONFLICT DO NOTHING`,
			args: []string{t.env.Cluster, t.env.Name, rand.Text(), at.Log},
		},
		statement{
			sql: `SELECT sink, identity, log, sequence, position, extract(epoch FROM now() - changed)::bigint
				FROM schema.cursors WHERE cluster = $1 FOR UPDATE`,
			args: []string{t.env.Cluster},
		},
		statement{
			sql:  "SELECT id FROM schema.history WHERE cluster = $1 AND id = ANY ($2::text[])",
			args: []string{t.env.Cluster, textArray(ids)},
		})
	if err != nil {
		return place{}, fmt.Errorf("begin a transaction: %w", err)
	}
	rows, held := results[len(results)-2].Rows, results[len(results)-1].Rows
	if len(rows) != 1 {
		return place{}, fmt.Errorf("read the position: the table cursors has %d rows for the cluster %s", len(rows), t.env.Cluster)
	}
	p := place{sink: string(rows[0][0]), identity: string(rows[0][1]), log: string(rows[0][2]), held: map[string]bool{}}
	for _, row := range held {
		p.held[string(row[0])] = true
	}
	var errs [2]error
	p.sequence, errs[0] = strconv.ParseUint(string(rows[0][3]), 10, 64)
	p.position, errs[1] = strconv.ParseInt(string(rows[0][4]), 10, 64)
	if err := errors.Join(errs[:]...); err != nil {
		return p, fmt.Errorf("read the position: %w", err)
	}
	if p.sink != t.env.Name {
		return p, fmt.Errorf("schema %s has the events of the cluster %s from the sink %q: set schema to another name; to continue the tables under this sink, "+
			"update the column sink of the table cursors", t.options.Schema, t.env.Cluster, p.sink)
	}
	age, _ := strconv.Atoi(string(rows[0][5]))
	if at.Log != "" && p.log != at.Log && p.position != t.position && age < int(otherLog.Seconds()) {
		return p, fmt.Errorf("another informd, or this one with another journal.dir, wrote events of the cluster %s to schema %s %d s ago: "+
			"two of them need two names of cluster, or two schemas", t.env.Cluster, t.options.Schema, age)
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

package postgres

import (
	"context"
	"errors"
	"strconv"

	"github.com/informd/informd/pkg/event"
	"github.com/informd/informd/pkg/sink"
)

const holdsSQL = "SELECT api_group, version, resource, kind, namespace, name, uid, revision, epoch FROM schema.objects WHERE cluster = $1"

// Holds implements [sink.Holder] with the rows of the table objects.
func (c *Config) Holds(ctx context.Context, env sink.Env, take func(event.Event) error) (err error) {
	t := newTables(c, env)
	t.prepared = true // this only reads
	if err := t.connected(ctx); err != nil {
		return explain(err)
	}
	defer func() { err = errors.Join(err, t.disconnect(ctx)) }()
	rows := t.conn.ExecParams(ctx, c.sql(holdsSQL), [][]byte{[]byte(env.Cluster)}, nil, nil, nil)
	for err == nil && rows.NextRow() {
		var e event.Event
		if e, err = heldEvent(env.Cluster, rows.Values()); err == nil {
			err = take(e)
		}
	}
	_, closeErr := rows.Close()
	return errors.Join(err, explain(orContext(ctx, closeErr)))
}

// heldEvent makes an event of a row, without data.
func heldEvent(cluster string, row [][]byte) (event.Event, error) {
	text := func(i int) string { return string(row[i]) }
	revision, err := strconv.ParseUint(text(7), 10, 64)
	epoch, epochErr := strconv.ParseUint(text(8), 10, 64)
	return event.Event{
		Cluster: cluster, Op: event.Modified, ID: event.ObjectID(text(6), revision, epoch), Group: text(0), Version: text(1), Resource: text(2),
		Kind: text(3), Namespace: text(4), Name: text(5), UID: text(6), ResourceVersion: revision, Epoch: epoch,
	}, errors.Join(err, epochErr)
}

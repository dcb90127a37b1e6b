package postgres

import (
	"bytes"
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/informd/informd/pkg/event"
	"github.com/informd/informd/pkg/sink"
)

// write adds the events to history, applies them to the other tables, and commits.
func (t *tables) write(ctx context.Context, p *place, batch []event.Event, seqs []uint64, raw bool) error {
	before := p.position
	changes := changes{cluster: t.env.Cluster, states: map[string]int64{}, uids: map[int64]string{}}
	t.buffer = make([]byte, 0, len(t.buffer)) // the library may still read that of a batch that has failed
	for i := range batch {
		e := &batch[i]
		p.sequence = max(p.sequence, seqs[i])
		id := clean(e.ID)
		if p.held[id] {
			continue
		}
		p.held[id] = true
		p.position++
		t.row = append(t.row[:0], field{"cluster", t.env.Cluster}, field{"position", p.position})
		t.row = appendRow(t.row, e, raw)
		for _, f := range t.row {
			t.buffer = append(appendCopy(t.buffer, f.value), '\t')
		}
		t.buffer[len(t.buffer)-1] = '\n'
		changes.add(e, p.position)
	}
	if p.position > before {
		if err := t.copy(ctx); err != nil {
			return fmt.Errorf("write history: %w", contentError{sink.WithContext(ctx, err)})
		}
	}
	statements := changes.statements()
	advance := len(statements)
	statements = append(statements, statement{
		advanceSQL,
		[]string{t.env.Cluster, p.identity, p.log, strconv.FormatUint(p.sequence, 10), strconv.FormatInt(p.position, 10)},
	}, statement{sql: "COMMIT"})
	if results, err := t.exec(ctx, statements...); err != nil {
		if len(results) != advance {
			err = contentError{err}
		}
		return fmt.Errorf("write objects: %w", err)
	}
	return nil
}

// copy sends the rows in the buffer.
func (t *tables) copy(ctx context.Context) error {
	names := make([]string, len(t.row))
	for i, f := range t.row {
		names[i] = f.column
	}
	sql := t.options.sql("COPY schema.history (" + strings.Join(names, ", ") + ") FROM STDIN")
	_, err := t.conn.CopyFrom(ctx, bytes.NewReader(t.buffer), sql)
	return err
}

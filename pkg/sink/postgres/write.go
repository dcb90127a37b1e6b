package postgres

import (
	"bytes"
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/informd/informd/pkg/event"
)

// write adds the events to history, applies them to the other tables, and commits.
func (t *tables) write(ctx context.Context, p *place, batch []event.Event, seqs []uint64, raw bool) error {
	before := p.position
	changes := changes{cluster: t.env.Cluster, states: map[string]int64{}, uids: map[int64]string{}}
	t.buffer = append(t.buffer[:0], copyHeader...)
	for i := range batch {
		e := &batch[i]
		p.sequence = max(p.sequence, seqs[i])
		id := clean(e.ID)
		if p.held[id] {
			continue
		}
		p.held[id] = true
		p.position++
		t.row = appendRow(t.row[:0], e, raw || !fits(e))
		t.buffer = appendCopy(t.buffer, t.env.Cluster, p.position, t.row)
		changes.add(e, p.position)
	}
	t.buffer = append(t.buffer, copyTrailer...)
	if p.position > before {
		if err := t.copy(ctx); err != nil {
			return fmt.Errorf("write history: %w", orContext(ctx, err))
		}
	}
	statements := append(changes.statements(), statement{
		sql:  "UPDATE schema.cursors SET identity = $2, log = $3, sequence = $4, position = $5, changed = now() WHERE cluster = $1",
		args: []string{t.env.Cluster, p.identity, p.log, strconv.FormatUint(p.sequence, 10), strconv.FormatInt(p.position, 10)},
	}, statement{sql: "COMMIT"})
	if _, err := t.exec(ctx, statements...); err != nil {
		return fmt.Errorf("write objects: %w", err)
	}
	const keep = 4 << 20
	if cap(t.buffer) > keep {
		t.buffer = nil
	}
	return nil
}

// copy sends the rows in the buffer.
func (t *tables) copy(ctx context.Context) error {
	names := []string{"cluster", "position"}
	for i := range t.row {
		names = append(names, t.row[i].column)
	}
	sql := t.options.sql("COPY schema.history (" + strings.Join(names, ", ") + ") FROM STDIN (FORMAT binary)")
	_, err := t.conn.CopyFrom(ctx, bytes.NewReader(t.buffer), sql)
	return err
}

// textArray is the text form of an array of texts.
func textArray(texts []string) string {
	escape := strings.NewReplacer(`\`, `\\`, `"`, `\"`)
	quoted := make([]string, len(texts))
	for i, text := range texts {
		quoted[i] = `"` + escape.Replace(text) + `"`
	}
	return "{" + strings.Join(quoted, ",") + "}"
}

// numberArray is the text form of an array of numbers.
func numberArray(numbers []int64) string {
	b := []byte{'{'}
	for i, n := range numbers {
		if i > 0 {
			b = append(b, ',')
		}
		b = strconv.AppendInt(b, n, 10)
	}
	return string(append(b, '}'))
}

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
	held, err := t.held(ctx, p, batch, seqs)
	if err != nil {
		return err
	}
	before := p.position
	changes := changes{cluster: t.env.Cluster, states: map[string]int64{}, uids: map[int64]string{}}
	t.buffer = append(t.buffer[:0], copyHeader...)
	for i := range batch {
		e := &batch[i]
		p.sequence = max(p.sequence, seqs[i])
		if held[i] {
			continue
		}
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
	sql := fmt.Sprintf("COPY %s.history (%s) FROM STDIN (FORMAT binary)", t.options.Schema, strings.Join(names, ", "))
	_, err := t.conn.CopyFrom(ctx, bytes.NewReader(t.buffer), sql)
	return err
}

// held returns which events history has already. It asks only for those that may be repetitions.
func (t *tables) held(ctx context.Context, p *place, batch []event.Event, seqs []uint64) ([]bool, error) {
	held := make([]bool, len(batch))
	places := map[string]int{} // of the first event with an id
	for i := range batch {
		if seqs[i] > p.sequence && !p.adopted {
			continue
		}
		id := clean(batch[i].ID)
		if _, twice := places[id]; twice {
			held[i] = true
		} else {
			places[id] = i
		}
	}
	if len(places) == 0 {
		return held, nil
	}
	ids := make([]string, 0, len(places))
	for id := range places {
		ids = append(ids, id)
	}
	results, err := t.exec(ctx, statement{
		sql:  "SELECT id FROM schema.history WHERE cluster = $1 AND id = ANY ($2::text[])",
		args: []string{t.env.Cluster, textArray(ids)},
	})
	if err != nil {
		return nil, fmt.Errorf("look for repeated events: %w", err)
	}
	for _, row := range results[0].Rows {
		held[places[string(row[0])]] = true
	}
	return held, nil
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

package postgres

import (
	"encoding/json"
	"fmt"
	"strconv"
	"time"

	"github.com/informd/informd/pkg/event"
	"github.com/informd/informd/pkg/sink"
)

// Render implements [sink.Renderer]: the row of the table history as JSON, without cluster and position.
func (c *Config) Render(env sink.Env, e *event.Event) (sink.Rendered, error) {
	if err := checkKey(env.Cluster, e); err != nil {
		return sink.Rendered{}, err
	}
	body := []byte{'{'}
	for i, f := range appendRow(nil, e, !fits(e)) {
		if i > 0 {
			body = append(body, ',')
		}
		body = append(append(append(body, '"'), f.column...), `":`...)
		value, err := f.appendJSON(body)
		if err != nil {
			return sink.Rendered{}, fmt.Errorf("show the column %s: %w", f.column, err)
		}
		body = value
	}
	out := sink.Rendered{To: "table " + c.Schema + ".history", Body: append(body, '}')}
	switch {
	case e.Op == event.Synced:
		out.Notes = append(out.Notes, "rows of the table objects that the snapshot lacks are deleted")
	case e.Op == event.Gap:
		out.Notes = append(out.Notes, "the table gaps gets a row")
	case e.Op.Ends():
		out.Notes = append(out.Notes, "the object's row leaves the table objects")
	case !e.Op.Control():
		out.Notes = append(out.Notes, "the object's row in the table objects is written")
	}
	return out, nil
}

func (f *field) appendJSON(dst []byte) ([]byte, error) {
	if f.null {
		return append(dst, "null"...), nil
	}
	switch f.kind {
	case kindText:
		text, err := json.Marshal(f.text)
		return append(dst, text...), err
	case kindNumber:
		return strconv.AppendUint(dst, f.number, 10), nil
	case kindBool:
		return strconv.AppendBool(dst, f.number == 1), nil
	case kindTime:
		return time.UnixMicro(int64(f.number)).UTC().AppendFormat(dst, `"2006-01-02T15:04:05.999999+00:00"`), nil
	case kindJSON:
		return append(dst, f.bytes...), nil
	}
	panic("postgres: a kind without a form")
}

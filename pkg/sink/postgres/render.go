package postgres

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/informd/informd/pkg/event"
	"github.com/informd/informd/pkg/sink"
)

// Render implements [sink.Renderer]: the row of the table history as JSON, without cluster and position.
func (c *Config) Render(_ sink.Env, e *event.Event) (sink.Rendered, error) {
	body := []byte{'{'}
	for _, f := range appendRow(nil, e, false) {
		body = append(append(append(body, '"'), f.column...), `":`...)
		switch v := f.value.(type) {
		case json.RawMessage:
			if v == nil {
				v = json.RawMessage("null")
			}
			body = append(body, v...)
		case time.Time:
			body = v.UTC().AppendFormat(body, `"2006-01-02T15:04:05.999999+00:00"`)
		default:
			text, err := json.Marshal(v)
			if err != nil {
				return sink.Rendered{}, fmt.Errorf("show the column %s: %w", f.column, err)
			}
			body = append(body, text...)
		}
		body = append(body, ',')
	}
	body[len(body)-1] = '}'
	return sink.Rendered{To: "table " + c.Schema + ".history", Body: body}, nil
}

package sinktest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"testing"

	"github.com/informd/informd/pkg/event"
	"github.com/informd/informd/pkg/sink"
)

// Record is an event as a destination holds it, whatever its wire form was.
type Record struct {
	// Attributes are the CloudEvents attributes by name, "id" and so on.
	// Numbers and booleans are in their JSON form.
	Attributes map[string]string
	// Data is the data, byte by byte; "" if there is none.
	Data string
}

// FromJSON reads one CloudEvents JSON object: a line of a file, a request body,
// an element of a batch.
func FromJSON(text []byte) (Record, error) {
	var members map[string]json.RawMessage
	if err := json.Unmarshal(text, &members); err != nil {
		return Record{}, fmt.Errorf("decode record %q: %w", excerpt(string(text)), err)
	}
	r := Record{Attributes: map[string]string{}}
	for name, raw := range members {
		switch {
		case name == "data":
			r.Data = string(raw)
		case raw[0] == '"':
			var s string
			if err := json.Unmarshal(raw, &s); err != nil {
				return Record{}, fmt.Errorf("decode attribute %s: %w", name, err)
			}
			r.Attributes[name] = s
		default:
			r.Attributes[name] = string(raw)
		}
	}
	return r, nil
}

// FromLines reads newline-delimited CloudEvents JSON. An unfinished last line is
// an error.
func FromLines(text []byte) ([]Record, error) {
	var all []Record
	for len(text) > 0 {
		line, rest, whole := bytes.Cut(text, []byte{'\n'})
		if !whole {
			return all, fmt.Errorf("read lines: the last one is cut: %q", excerpt(string(line)))
		}
		r, err := FromJSON(line)
		if err != nil {
			return all, err
		}
		all, text = append(all, r), rest
	}
	return all, nil
}

// FromHeaders reads a message in CloudEvents binary mode: an HTTP request or a
// NATS message. Headers that do not belong to CloudEvents are ignored.
func FromHeaders(headers map[string][]string, body []byte) (Record, error) {
	r := Record{Attributes: map[string]string{}, Data: string(body)}
	for name, values := range headers {
		name = strings.ToLower(name)
		attribute, ok := strings.CutPrefix(name, "ce-")
		if name == "content-type" {
			attribute, ok = "datacontenttype", true
		}
		if !ok {
			continue
		}
		if len(values) != 1 {
			return Record{}, fmt.Errorf("read header %s: %d values, want 1", name, len(values))
		}
		value, err := url.PathUnescape(values[0])
		if err != nil {
			return Record{}, fmt.Errorf("read header %s: %w", name, err)
		}
		r.Attributes[attribute] = value
	}
	return r, nil
}

// InOrder compares ids, as a destination holds them in its order, with events: each must be there, and behind those
// before it of its object, for a consumer that keeps the first of equal ids and for one that ends with the last. It
// returns how many ids came again.
func InOrder(ids []string, events []event.Event) (again int, err error) {
	first, last := map[string]int{}, map[string]int{}
	for i, id := range ids {
		if _, seen := first[id]; !seen {
			first[id] = i
		}
		last[id] = i
	}
	var wrong []error
	before := map[string]string{} // key -> id of the event before
	for i := range events {
		id, key := events[i].ID, events[i].Key()
		if _, ok := first[id]; !ok {
			wrong = append(wrong, fmt.Errorf("event %d of %d, %s, is missing among %d", i, len(events), id, len(ids)))
			continue
		}
		if prev, ok := before[key]; ok && (first[prev] > first[id] || last[prev] > last[id]) {
			wrong = append(wrong, fmt.Errorf("object %s: event %s came after %s", key, prev, id))
		}
		before[key] = id
	}
	return len(ids) - len(first), errors.Join(wrong...)
}

// records is what the events look like in a destination.
func records(t *testing.T, events []event.Event) []Record {
	t.Helper()
	all := make([]Record, len(events))
	for i := range events {
		r, err := FromJSON(events[i].AppendJSON(nil))
		if err != nil {
			t.Fatalf("event %d is not sound itself: %v", i, err)
		}
		all[i] = r
	}
	return all
}

// IDs are those of records, in order.
func IDs(all []Record) []string {
	list := make([]string, len(all))
	for i, r := range all {
		list[i] = r.Attributes["id"]
	}
	return list
}

// EventIDs are those of events, in order.
func EventIDs(events []event.Event) []string {
	list := make([]string, len(events))
	for i := range events {
		list[i] = events[i].ID
	}
	return list
}

// Kind is "none", "permanent", "unknown" or "passing": what an error of Write means for its event.
func Kind(err error) string {
	switch {
	case err == nil:
		return "none"
	case sink.IsPermanent(err):
		return "permanent"
	case sink.IsUnknown(err):
		return "unknown"
	}
	return "passing"
}

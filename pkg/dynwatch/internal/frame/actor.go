package frame

import (
	"bytes"
	"time"

	"github.com/informd/informd/pkg/dynwatch/internal/jsonscan"
)

// actor is what a pass has read of metadata.managedFields.
type actor struct {
	newest writer
	// unsure: an entry is not what it should be, so that it is not known which is the
	// newest.
	unsure bool
}

// writer is one entry of managedFields: texts as they stand there, with their quotes,
// nil for what it has not.
type writer struct{ manager, operation, subresource, time []byte }

// managedFields checks metadata.managedFields, and reads who wrote last if that is
// asked for.
func (p *pass) managedFields(i int) int {
	if !p.shape.asksActor() {
		return p.Value(i, 2)
	}
	if !p.opens(i, '[') {
		p.actor.unsure = true
		return p.Value(i, 2)
	}
	return p.Elements(i, p.writer)
}

// writer checks one entry. The later of two with the same time counts as the newer: the
// API server gives times in seconds, and puts Apply before Update.
func (p *pass) writer(i int) int {
	if !p.opens(i, '{') {
		p.actor.unsure = true
		return p.Value(i, 3)
	}
	var w writer
	good := true
	end, _ := p.Walk(i, func(key []byte, value int) (int, bool) {
		end := p.Value(value, 4)
		if field := w.field(key); end != jsonscan.None && field != nil {
			good = assign(field, p.Data[value:end]) && good
		}
		return end, false
	})
	switch {
	case !good, w.time != nil && !isTime(w.time):
		p.actor.unsure = true
	case w.time != nil && bytes.Compare(w.time, p.actor.newest.time) >= 0:
		p.actor.newest = w
	}
	return end
}

// isTime reports whether a text is a time as the API server writes all of them, in UTC
// and seconds, so that a later one is a greater text.
func isTime(text []byte) bool {
	const like = `"2006-01-02T15:04:05Z"`
	if len(text) != len(like) || text[14] != ':' || text[17] != ':' || text[20] != 'Z' {
		return false // time.Parse would let one digit and fractions pass
	}
	_, err := time.Parse(like, string(text))
	return err == nil
}

// field is where the value of a key belongs, nil for nowhere.
func (w *writer) field(key []byte) *[]byte {
	switch string(key) {
	case "manager":
		return &w.manager
	case "operation":
		return &w.operation
	case "subresource":
		return &w.subresource
	case "time":
		return &w.time
	}
	return nil
}

// assign notes a value and reports whether that is a string, the first one for its
// field.
func assign(field *[]byte, value []byte) bool {
	if *field != nil || value[0] != '"' {
		return false
	}
	*field = value
	return true
}

// value is the actor as JSON, nil if it is not known.
func (a *actor) value() []byte {
	w := &a.newest
	if a.unsure || w.time == nil {
		return nil
	}
	dst := make([]byte, 0, len(w.manager)+len(w.operation)+len(w.subresource)+len(w.time)+
		len(`{"manager":,"operation":,"subresource":,"time":}`))
	dst = append(dst, '{')
	for _, m := range [...]struct {
		name string
		text []byte
	}{{`"manager":`, w.manager}, {`"operation":`, w.operation}, {`"subresource":`, w.subresource}} {
		if len(m.text) > len(`""`) {
			dst = append(append(append(dst, m.name...), m.text...), ',')
		}
	}
	return append(append(append(dst, `"time":`...), w.time...), '}')
}

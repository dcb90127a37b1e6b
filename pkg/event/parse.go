package event

import (
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"time"

	"github.com/informd/informd/internal/form"
)

// errNoEvent says that headers are not those of an event.
var errNoEvent = errors.New("the headers are not those of an informd event")

// ParseHeaders is the inverse of [Event.AppendHeaders]: it reads an event from the headers
// of a NATS message or an HTTP request in binary mode. Headers of Kafka are not escaped: use
// format cloudevents and [ParseJSON] there. The argument returns the value of a header by its
// exact name, or "". The headers lack Data, which is the message's body, digits of Time below a
// microsecond, and the namespace of an object's Target.
func ParseHeaders(header func(name string) string) (Event, error) {
	p := headerParser{header: header}
	e := Event{
		ID:      p.text("ce-id"),
		Op:      Op(p.text("ce-op")),
		Time:    p.time("ce-time"),
		Cluster: p.text("ce-cluster"),
		Target:  p.text("ce-subject"),
		Group:   p.text("ce-group"),
	}
	texts, numbers := e.Texts(), e.Numbers()
	for i, header := range textHeaders() {
		if header != "" {
			*texts[i] = p.text(header)
		}
	}
	for i, header := range numberHeaders() {
		*numbers[i] = p.number(header)
	}
	e.Replay = p.text("ce-replay") == "true"
	if e.ID == "" || p.text("ce-type") != e.Type() {
		return Event{}, errNoEvent
	}
	if !e.Op.Control() {
		e.Target = GroupOrCore(e.Group) + "/" + e.Resource
	}
	if e.Op == Gap {
		e.Gap = &GapInfo{
			From:      p.number("ce-fromrv"),
			To:        p.number("ce-torv"),
			Reason:    p.text("ce-reason"),
			Recovered: Recovered(p.text("ce-recovered")),
			Trimmed:   p.number("ce-trimmed"),
		}
	}
	return e, p.err
}

// headerParser reads attributes and keeps the first error.
type headerParser struct {
	header func(name string) string
	err    error
}

func (p *headerParser) text(name string) string {
	text, err := url.PathUnescape(p.header(name))
	p.fail(name, err)
	return text
}

func (p *headerParser) number(name string) uint64 {
	raw := p.header(name)
	if raw == "" {
		return 0
	}
	n, err := strconv.ParseUint(raw, 10, 64)
	p.fail(name, err)
	return n
}

func (p *headerParser) time(name string) time.Time {
	t, err := time.Parse(form.TimeFormat, p.header(name))
	p.fail(name, err)
	return t
}

func (p *headerParser) fail(name string, err error) {
	if err != nil && p.err == nil {
		p.err = fmt.Errorf("header %s: %w", name, err)
	}
}

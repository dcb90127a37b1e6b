package publish

import (
	"net/http"
	"testing"
	"time"

	js "github.com/nats-io/nats.go/jetstream"

	"github.com/informd/informd/pkg/journal/jetstream/internal/eventlog"
	"github.com/informd/informd/pkg/journal/jetstream/internal/message"
	"github.com/informd/informd/pkg/journal/jetstream/internal/tail"
)

// TestUnknownRefusalsAreBounded: an event that the server refuses with an unknown error is
// given up after a time, and only if the stream takes other events.
func TestUnknownRefusalsAreBounded(t *testing.T) {
	p := &Publisher{Log: &eventlog.Log{Tail: tail.New(1<<20, 7)}, unknownFor: time.Hour}
	f := NewFlight()
	f.err = &js.APIError{Code: http.StatusBadRequest, ErrorCode: 10999, Description: "a new reason"}
	if p.isHopeless(f) {
		t.Error("given up at once")
	}
	p.Tail.Reach(8)
	if p.isHopeless(f) {
		t.Error("given up before its time")
	}
	p.unknownFor = 0
	if !p.isHopeless(f) {
		t.Error("not given up, although the stream took another event and the time is over")
	}
	alone := NewFlight()
	alone.err = f.err
	for range 2 {
		if p.isHopeless(alone) {
			t.Error("given up, although the stream took nothing else")
		}
	}
	f.empty()
	f.err = &js.APIError{Code: http.StatusBadRequest, ErrorCode: 10999}
	if p.isHopeless(f) {
		t.Error("a flight that is used again has the old time")
	}
}

// TestRefusedObjectsAreBounded: an object is given up after a time, not after some quick failures.
func TestRefusedObjectsAreBounded(t *testing.T) {
	now := time.Now()
	long := now.Add(-message.ObjectRefusal)
	for name, c := range map[string]struct {
		first, rest time.Time // when the attempts began
		attempts    int
		want        bool
	}{
		"quick failures": {first: now, rest: now, attempts: 100},
		"silence":        {first: long, rest: now, attempts: message.ObjectAttempts, want: true},
		"few attempts":   {first: long, rest: now, attempts: message.ObjectAttempts - 1},
	} {
		f := NewFlight()
		got := f.noteRefusal(c.first)
		for range c.attempts - 1 {
			got = f.noteRefusal(c.rest)
		}
		if got != c.want {
			t.Errorf("%s: given up is %t, want %t", name, got, c.want)
		}
	}
}

package publish

import (
	"net/http"
	"testing"
	"time"

	js "github.com/nats-io/nats.go/jetstream"

	"github.com/informd/informd/pkg/journal/jetstream/internal/eventlog"
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

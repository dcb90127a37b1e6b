package jetstream

import (
	"net/http"
	"testing"
	"time"

	js "github.com/nats-io/nats.go/jetstream"

	"github.com/informd/informd/pkg/journal/jetstream/internal/tail"
)

// TestUnknownRefusalsAreBounded: an event that the server refuses with an unknown error is
// given up after a time, and only if the stream takes other events.
func TestUnknownRefusalsAreBounded(t *testing.T) {
	j := &Journal{tail: tail.New(1<<20, 7), unknownFor: time.Hour}
	f := newFlight()
	f.err = &js.APIError{Code: http.StatusBadRequest, ErrorCode: 10999, Description: "a new reason"}
	if j.isHopeless(f) {
		t.Error("given up at once")
	}
	j.tail.Reach(8)
	if j.isHopeless(f) {
		t.Error("given up before its time")
	}
	j.unknownFor = 0
	if !j.isHopeless(f) {
		t.Error("not given up, although the stream took another event and the time is over")
	}
	alone := newFlight()
	alone.err = f.err
	for range 2 {
		if j.isHopeless(alone) {
			t.Error("given up, although the stream took nothing else")
		}
	}
	f.empty()
	f.err = &js.APIError{Code: http.StatusBadRequest, ErrorCode: 10999}
	if j.isHopeless(f) {
		t.Error("a flight that is used again has the old time")
	}
}

package nats

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strings"
	"testing"

	client "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

func classify(err error) string {
	return map[refusal]string{
		refusedForNow: "for now", refusedFull: "full", refusedStale: "stale", refusedForGood: "for good", refusedUnknown: "unknown",
	}[refusalOf(fmt.Errorf("publish: %w", err))]
}

// TestEveryErrorOfTheServerIsClassified: the golden file says for each error that nats-server
// documents what it means for a message. Its lines are those of the server: see test/sinks.
func TestEveryErrorOfTheServerIsClassified(t *testing.T) {
	golden, err := os.ReadFile("testdata/errors.golden")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(golden)) {
		line = strings.TrimSuffix(line, "\n")
		at := strings.LastIndex(line, ": ")
		api, want := &jetstream.APIError{}, line[at+2:]
		if _, err := fmt.Sscan(line, &api.Code, &api.ErrorCode); err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		api.Description = line[:at]
		if got := classify(api); got != want {
			t.Errorf("%s: it is %s", line, got)
		}
	}
	for _, passing := range []error{client.ErrConnectionClosed, jetstream.ErrNoStreamResponse, context.DeadlineExceeded, errors.New("anything")} {
		if got := classify(passing); got != "for now" {
			t.Errorf("%v is %s", passing, got)
		}
	}
	if got := classify(client.ErrMaxPayload); got != "for good" {
		t.Errorf("%v is %s", client.ErrMaxPayload, got)
	}
	tooLarge := &jetstream.APIError{Code: http.StatusServiceUnavailable, ErrorCode: 10077, Description: "message too large"}
	if got := classify(tooLarge); got != "for good" {
		t.Errorf("%v is %s", tooLarge, got)
	}
}

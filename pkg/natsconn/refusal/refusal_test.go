package refusal_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/informd/informd/pkg/natsconn/refusal"
)

func classify(err error) string {
	return map[refusal.Kind]string{
		refusal.Passing: "passing", refusal.Full: "full", refusal.Stale: "stale",
		refusal.Oversized: "too large", refusal.Never: "never", refusal.Unknown: "unknown",
	}[refusal.Of(fmt.Errorf("publish: %w", err))]
}

// TestEveryErrorOfTheServerIsClassified: the golden file says for each error that the server
// documents what it means for a message. A server with new errors has to be looked at.
func TestEveryErrorOfTheServerIsClassified(t *testing.T) {
	var lines []string
	for _, e := range server.ApiErrors {
		err := &jetstream.APIError{Code: e.Code, ErrorCode: jetstream.ErrorCode(e.ErrCode), Description: e.Description}
		lines = append(lines, fmt.Sprintf("%d %s: %s", e.ErrCode, e.Description, classify(err)))
	}
	slices.SortFunc(lines, func(a, b string) int { return cmp.Compare(a, b) })
	got := strings.Join(lines, "\n") + "\n"
	const golden = "testdata/errors.golden"
	if os.Getenv("UPDATE_GOLDEN") != "" {
		if err := os.WriteFile(golden, []byte(got), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("the server's errors are not those of %s: look at the new ones, then UPDATE_GOLDEN=1 go test", golden)
	}
	for _, passing := range []error{nats.ErrConnectionClosed, jetstream.ErrNoStreamResponse, context.DeadlineExceeded, errors.New("anything")} {
		if got := classify(passing); got != "passing" {
			t.Errorf("%v is %s", passing, got)
		}
	}
	if got := classify(nats.ErrMaxPayload); got != "too large" {
		t.Errorf("%v is %s", nats.ErrMaxPayload, got)
	}
	tooLarge := &jetstream.APIError{Code: http.StatusServiceUnavailable, ErrorCode: 10077, Description: "message too large"}
	if got := classify(tooLarge); got != "too large" {
		t.Errorf("%v is %s", tooLarge, got)
	}
}

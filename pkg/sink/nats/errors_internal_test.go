package nats

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	client "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/informd/informd/pkg/sink/sinktest"
)

// kinds are what each refusal means for an event.
func kinds() map[string]string {
	return map[string]string{"for now": "passing", "full": "passing", "stale": "passing", "for good": "permanent", "unknown": "unknown"}
}

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
		if err := explainAck(api, "K8S"); sinktest.Kind(err) != kinds()[want] {
			t.Errorf("%s: %v is %s, want %s", line, err, sinktest.Kind(err), kinds()[want])
		}
	}
	for _, passing := range []error{client.ErrConnectionClosed, jetstream.ErrNoStreamResponse, context.DeadlineExceeded, errors.New("anything")} {
		if got := classify(passing); got != "for now" || sinktest.Kind(explainAck(passing, "K8S")) != "passing" {
			t.Errorf("%v is %s, and then %v", passing, got, explainAck(passing, "K8S"))
		}
	}
	tooLarge := &jetstream.APIError{Code: http.StatusServiceUnavailable, ErrorCode: 10077, Description: "message too large"}
	for _, err := range []error{client.ErrMaxPayload, tooLarge} {
		if got := classify(err); got != "for good" || sinktest.Kind(explainAck(err, "K8S")) != "permanent" {
			t.Errorf("%v is %s, and then %v", err, got, explainAck(err, "K8S"))
		}
	}
	if err := explainAck(nil, "K8S"); err != nil {
		t.Errorf("%v of no error", err)
	}
}

const longest = 5 * time.Second

// TestElection: while a server elects a leader the wait stays short, and grows later.
func TestElection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newAckWait(longest)
		for began := time.Now(); time.Since(began) < 15*time.Second; {
			if got := w.Now(); got != shortestWait {
				t.Fatalf("after %v the wait is %v, want %v", time.Since(began), got, shortestWait)
			}
			<-time.After(w.Now())
			w.Unanswered()
		}
		for range 4 {
			<-time.After(w.Now())
			w.Unanswered()
		}
		if got := w.Now(); got != longest {
			t.Errorf("later the wait is %v, want %v", got, longest)
		}
		w.Answered(time.Millisecond)
		if got := w.Now(); got != shortestWait {
			t.Errorf("after an answer the wait is %v, want %v", got, shortestWait)
		}
	})
}

// TestSlow: a server that answers slowly gets the time that it needs, until it is fast.
func TestSlow(t *testing.T) {
	w := newAckWait(longest)
	w.Answered(time.Second)
	w.Answered(time.Millisecond)
	if got := w.Now(); got < 3*time.Second || got > longest {
		t.Errorf("the wait is %v after an answer that took 1 s", got)
	}
	w.Answered(time.Minute)
	if got := w.Now(); got != longest {
		t.Errorf("the wait is %v, want at most %v", got, longest)
	}
	for range 1000 {
		w.Answered(time.Millisecond)
	}
	if got := w.Now(); got != shortestWait {
		t.Errorf("the wait is %v when the server has been fast for long", got)
	}
}

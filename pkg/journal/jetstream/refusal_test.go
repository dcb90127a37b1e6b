package jetstream_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	js "github.com/nats-io/nats.go/jetstream"

	"github.com/informd/informd/pkg/event"
	"github.com/informd/informd/pkg/journal"
	"github.com/informd/informd/pkg/journal/jetstream"
)

// TestEveryErrorOfTheServerIsClassified: the golden file says for each error that the server
// documents what it means for an event. A server with new errors has to be looked at.
func TestEveryErrorOfTheServerIsClassified(t *testing.T) {
	var lines []string
	for _, e := range server.ApiErrors {
		err := &js.APIError{Code: e.Code, ErrorCode: js.ErrorCode(e.ErrCode), Description: e.Description}
		lines = append(lines, fmt.Sprintf("%d %s: %s", e.ErrCode, e.Description, jetstream.Classify(fmt.Errorf("publish: %w", err))))
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
	for _, passing := range []error{nats.ErrConnectionClosed, js.ErrNoStreamResponse, context.DeadlineExceeded, errors.New("anything")} {
		if got := jetstream.Classify(passing); got != "passing" {
			t.Errorf("%v is %s", passing, got)
		}
	}
	tooLarge := &js.APIError{Code: http.StatusServiceUnavailable, ErrorCode: 10077, Description: "message too large"}
	if got := jetstream.Classify(tooLarge); got != "too large" {
		t.Errorf("%v is %s", tooLarge, got)
	}
}

// left is what a journal could never store.
type left struct {
	ids     []string
	refuses atomic.Int64 // so many times the event cannot be kept elsewhere either
}

func (l *left) take(_ context.Context, e *event.Event, reason error) error {
	if reason == nil {
		return errors.New("no reason")
	}
	if l.refuses.Add(-1) >= 0 {
		return errors.New("no place")
	}
	l.ids = append(l.ids, e.ID)
	return nil
}

// TestHeadersTooLargeForGood: an event whose headers the server never takes is handed over,
// and what follows is not held up.
func TestHeadersTooLargeForGood(t *testing.T) {
	for _, payload := range []int32{1 << 20, 32 << 10} { // a limit of headers, and one of messages
		t.Run(fmt.Sprint(payload), func(t *testing.T) {
			h := newHostWith(t, payload)
			var l left
			l.refuses.Store(2)
			j := h.open(func(c *jetstream.Config) { c.Unstorable = l.take })
			c := mustOpen(t, j, "bus", journal.FromNow)
			var now clock
			long, short := &object{name: strings.Repeat("n", 33_000)}, &object{name: "short"}
			bad := long.event(&now, event.Added)
			mustAppend(t, j, bad, short.event(&now, event.Added), long.event(&now, event.Modified), short.event(&now, event.Modified))
			for _, e := range read(t, c, 2) {
				if e.Event.Name != "short" {
					t.Errorf("the log has %.100s", e.Event.ID)
				}
			}
			if len(l.ids) != 2 || l.ids[0] != bad.ID {
				t.Errorf("handed over: %.200q", l.ids)
			}
			if got := j.Stats().Unstorable; got != 2 {
				t.Errorf("unstorable = %d, want 2", got)
			}
		})
	}
}

package deliver_test

import (
	"context"
	"fmt"
	"log/slog"
	"sync/atomic"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/informd/informd/internal/deliver"
	"github.com/informd/informd/pkg/event"
	"github.com/informd/informd/pkg/journal/journaltest"
	"github.com/informd/informd/pkg/sink"
)

// counter is a sink that costs nothing.
type counter struct{ left atomic.Int64 }

func (c *counter) Write(_ context.Context, batch []event.Event) (int, error) {
	c.left.Add(-int64(len(batch)))
	return len(batch), nil
}

func (c *counter) Close(context.Context) error { return nil }

// BenchmarkRunner measures what an event costs between the journal and a sink,
// the journal included.
func BenchmarkRunner(b *testing.B) {
	for _, lanes := range []int{1, 8} {
		b.Run(fmt.Sprint("lanes=", lanes), func(b *testing.B) {
			route := deliver.NewRoute(nil, true)
			j, c := journaltest.Open(b, journaltest.MaxBytes(10<<30)), &counter{}
			r := newRunner(b, realJournal{j}, deliver.Options{
				Name: "out", Logger: slog.New(slog.DiscardHandler), Registerer: prometheus.NewRegistry(),
				Setup: deliver.Setup{
					Lanes: lanes, Route: route, Open: func(context.Context) (sink.Sink, error) { return c, nil },
				},
			})
			done := make(chan error, 1)
			go func() { done <- r.Run(b.Context()) }()
			list := events(0, 100)
			b.ReportAllocs()
			for left := b.N; left > 0; left -= len(list) {
				must(b, j.Append(b.Context(), list[:min(left, len(list))]))
			}
			if left, err := r.Drain(b.Context()); left > 0 || err != nil {
				b.Fatalf("Drain = %d, %v", left, err)
			}
			must(b, <-done)
			if got := int(-c.left.Load()); got != b.N {
				b.Errorf("%d events delivered, want %d", got, b.N)
			}
		})
	}
}

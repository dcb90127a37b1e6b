package daemon

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/informd/informd/internal/config"
	"github.com/informd/informd/internal/deliver"
	"github.com/informd/informd/pkg/dynwatch"
	"github.com/informd/informd/pkg/event"
	"github.com/informd/informd/pkg/informer/informertest"
	"github.com/informd/informd/pkg/sink"
)

// TestRefillOutlastsASinkThatIsDown: the sink is down when its destination, which was replaced,
// is to get every object. It counts as complete when it has them, not when they are pending.
func TestRefillOutlastsASinkThatIsDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var up, synced atomic.Bool
		write := writeFunc(func(_ context.Context, batch []event.Event) (int, error) {
			if !up.Load() {
				return 0, errors.New("connection refused")
			}
			for i := range batch {
				if batch[i].Op == event.Synced {
					synced.Store(true)
				}
			}
			return len(batch), nil
		})
		d, p := podsTo(t, write)
		<-time.After(time.Minute) // until it is known that Pods are forbidden
		refilled := make(chan error, 1)
		go func() { refilled <- newDestinations(p, d).refill(t.Context(), "core/pods", "out") }()
		<-time.After(time.Hour)
		if len(refilled) > 0 {
			t.Error("refill returned while the sink is down")
		}
		up.Store(true)
		if err := <-refilled; err != nil || !synced.Load() {
			t.Errorf("refilled: %v; the destination has every object: %t", err, synced.Load())
		}
	})
}

// podsTo makes a daemon that watches Pods, of an API server that does not allow it, and delivers to
// a sink "out". It ends with the test.
func podsTo(t *testing.T, write writeFunc) (*Daemon, *pipeline) {
	t.Helper()
	logger := slog.New(slog.NewTextHandler(t.Output(), nil))
	log, forbidding := emptyJournal(t), informertest.New()
	forbidding.Inject(informertest.Fault{Code: http.StatusForbidden})
	manager, err := dynwatch.New(dynwatch.Options{
		Cluster: "test", Kubernetes: forbidding.Config(), Log: log, RedactionKey: []byte("0123456789abcdef"), Logger: logger,
		Reject: func(context.Context, dynwatch.Rejected) error { return nil },
	})
	must(t, err)
	t.Cleanup(manager.Close)
	p := &pipeline{logger: logger, now: t.Context(), config: &config.Config{}, manager: manager, store: &clusterJournal{
		Journal: log, Durable: true,
	}}
	d := &Daemon{config: p.config, registry: prometheus.NewRegistry(), level: new(slog.LevelVar), logger: logger}
	d.pipeline.Store(p)
	route := newRoute(config.Sink{})
	one, err := p.newDelivery(d, config.Sink{Name: "out"}, deliver.Setup{
		Type: "fake", Lanes: 1, Route: route, Open: func(context.Context) (sink.Sink, error) { return write, nil },
	})
	must(t, err)
	p.all = []*delivery{one}
	// The sink is there first: else it begins with a snapshot, and a target that was not listed has none.
	must(t, manager.Apply([]dynwatch.Resource{{Resource: "pods"}}))
	ended := make(chan error, 1)
	go func() { ended <- one.Run(t.Context()) }()
	t.Cleanup(func() {
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return d, p
}

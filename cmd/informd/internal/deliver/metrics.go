package deliver

import (
	"errors"
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/informd/informd/pkg/journal"
)

// metrics are one sink's series. They exist from New to the end of Run.
type metrics struct {
	registerer prometheus.Registerer
	all        []prometheus.Collector

	delivered, filtered, deadLetters prometheus.Counter
	retries, panics, whenErrors      prometheus.Counter
	write                            prometheus.Histogram
}

// registerMetrics makes and registers the series of the sink called name. Lag
// and state are called when the metrics are read.
func registerMetrics(registerer prometheus.Registerer, name string, lag func() journal.Lag, state func() State) (*metrics, error) {
	m := &metrics{registerer: prometheus.WrapRegistererWith(prometheus.Labels{"sink": name}, registerer)}
	events := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "informd_sink_events_total",
		Help: "Events that the sink is done with: delivered, filtered (left out by its route) or dead_letter.",
	}, []string{"result"})
	m.delivered = events.WithLabelValues("delivered")
	m.filtered = events.WithLabelValues("filtered")
	m.deadLetters = events.WithLabelValues("dead_letter")
	m.retries = prometheus.NewCounter(prometheus.CounterOpts{
		Name: "informd_sink_retries_total",
		Help: "Failed attempts to open the sink or to write to it that were worth another.",
	})
	m.panics = prometheus.NewCounter(prometheus.CounterOpts{
		Name: "informd_sink_panics_total",
		Help: "Panics in the sink's code; each is a bug.",
	})
	m.whenErrors = prometheus.NewCounter(prometheus.CounterOpts{
		Name: "informd_sink_when_errors_total",
		Help: "Evaluations of a `when` that failed; its onError decides about the event.",
	})
	m.write = prometheus.NewHistogram(prometheus.HistogramOpts{
		Name:    "informd_sink_write_seconds",
		Help:    "Duration of the sink's writes, failed ones included.",
		Buckets: []float64{.0001, .0005, .001, .005, .01, .05, .1, .5, 1, 5, 10, 30},
	})
	gauge := func(name, help string, value func() float64) prometheus.Collector {
		return prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, value)
	}
	m.all = []prometheus.Collector{
		events, m.retries, m.panics, m.whenErrors, m.write,
		gauge("informd_sink_lag_events", "Events in the journal that the sink is not done with.",
			func() float64 { return float64(lag().Events) }),
		gauge("informd_sink_lag_seconds", "Age of the oldest event that the sink is not done with, 0 if none.",
			func() float64 { return lag().Seconds }),
		gauge("informd_sink_up", "1 while the sink takes what it is given, 0 while it cannot be opened or fails.",
			func() float64 {
				if state() == Running {
					return 1
				}
				return 0
			}),
	}
	for i, c := range m.all {
		if err := m.registerer.Register(c); err != nil {
			m.all = m.all[:i]
			m.unregister()
			if _, ok := errors.AsType[prometheus.AlreadyRegisteredError](err); ok {
				return nil, fmt.Errorf("register metrics: a sink of that name runs already: %w", err)
			}
			return nil, fmt.Errorf("register metrics: %w", err)
		}
	}
	return m, nil
}

func (m *metrics) unregister() {
	for _, c := range m.all {
		m.registerer.Unregister(c)
	}
}

// observeWrite records the duration of a write that began at start.
func (m *metrics) observeWrite(start time.Time) {
	m.write.Observe(time.Since(start).Seconds())
}

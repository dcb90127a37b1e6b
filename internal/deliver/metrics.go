package deliver

import (
	"errors"
	"fmt"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/informd/informd/pkg/journal"
)

// metrics are one sink's series. They exist from New to the end of Run.
type metrics struct {
	registerer prometheus.Registerer
	all        []prometheus.Collector

	delivered, filtered, deadLetters prometheus.Counter
	retries, panics, whenErrors      prometheus.Counter
	trimmed                          prometheus.Counter
	write                            prometheus.Histogram
}

// registerMetrics makes and registers the series of the sink called name. Lag
// and state are called when the metrics are read.
func registerMetrics(registerer prometheus.Registerer, name string, lag func() journal.Lag, state func() State) (*metrics, error) {
	m := &metrics{registerer: prometheus.WrapRegistererWith(prometheus.Labels{"sink": name}, registerer)}
	events := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "informd_sink_events_total",
		Help: "Events, by result: delivered, filtered (match does not select them) or dead_letter (refused for good).",
	}, []string{"result"})
	m.delivered = events.WithLabelValues("delivered")
	m.filtered = events.WithLabelValues("filtered")
	m.deadLetters = events.WithLabelValues("dead_letter")
	counter := func(name, help string) prometheus.Counter {
		return prometheus.NewCounter(prometheus.CounterOpts{Name: name, Help: help})
	}
	m.retries = counter("informd_sink_retries_total", "Failed attempts to open the sink or to write to it, which informd repeats.")
	m.panics = counter("informd_sink_panics_total", "Panics in the code of the sink, which are bugs.")
	m.whenErrors = counter("informd_sink_condition_errors_total", "Events for which a condition failed; onConditionError decides whether the sink gets them.")
	m.trimmed = counter("informd_sink_trimmed_events_total", "Events that left the journal before the sink had them; a gap event of the reason trimmed says so.")
	m.write = prometheus.NewHistogram(prometheus.HistogramOpts{
		Name:    "informd_sink_write_seconds",
		Help:    "Duration of writes in seconds, failed writes included.",
		Buckets: []float64{.0001, .0005, .001, .005, .01, .05, .1, .5, 1, 5, 10, 30},
	})
	in := func(one State) func() float64 {
		return func() float64 {
			if state() == one {
				return 1
			}
			return 0
		}
	}
	gauge := func(name, help string, value func() float64) prometheus.Collector {
		return prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, value)
	}
	m.all = []prometheus.Collector{
		events, m.retries, m.panics, m.whenErrors, m.trimmed, m.write,
		gauge("informd_sink_lag_events", "Events in the journal that the sink does not have yet.",
			func() float64 { return float64(lag().Events) }),
		gauge("informd_sink_lag_seconds", "Age in seconds of the oldest event that the sink does not have yet, 0 if it has every event.",
			func() float64 { return lag().Seconds }),
		gauge("informd_sink_up", "1 if the sink takes events, 0 if it cannot be opened or fails.", in(Running)),
	}
	for _, one := range States() {
		m.all = append(m.all, prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "informd_sink_state", Help: "1 if the sink is in the state, else 0.",
			ConstLabels: prometheus.Labels{"state": string(one)},
		}, in(one)))
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

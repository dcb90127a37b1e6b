package daemon

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/informd/informd/pkg/journal"
)

// droppedCollector exports [journal.Stats.Dropped], which bounds the namespaces.
type droppedCollector struct {
	journal journal.Journal
	events  *prometheus.Desc
}

func newDroppedCollector(j journal.Journal) *droppedCollector {
	return &droppedCollector{journal: j, events: prometheus.NewDesc("informd_journal_dropped_total",
		"An event that the full journal removed before each sink had it; a sink without it gets a gap event.", []string{"namespace"}, nil)}
}

// Describe implements prometheus.Collector.
func (c *droppedCollector) Describe(out chan<- *prometheus.Desc) { out <- c.events }

// Collect implements prometheus.Collector.
func (c *droppedCollector) Collect(out chan<- prometheus.Metric) {
	dropped := c.journal.Stats().Dropped
	for namespace, n := range dropped {
		out <- prometheus.MustNewConstMetric(c.events, prometheus.CounterValue, float64(n), namespace)
	}
	if _, ok := dropped[journal.OtherNamespaces]; !ok { // one series exists from the start
		out <- prometheus.MustNewConstMetric(c.events, prometheus.CounterValue, 0, journal.OtherNamespaces)
	}
}

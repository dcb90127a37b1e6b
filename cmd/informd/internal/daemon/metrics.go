package daemon

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"github.com/informd/informd/pkg/dynwatch"
	"github.com/informd/informd/pkg/journal"
)

// targetCollector turns what the manager says of its targets into metrics when
// they are read, so that the loops count nothing twice and a target's series go
// with it.
type targetCollector struct {
	manager *dynwatch.Manager

	state, objects, events, rejected, unchanged, unpaired, states, watches, failures, progress, audits, divergences, mismatches, blocked, stuck *prometheus.Desc
}

func newTargetCollector(m *dynwatch.Manager) *targetCollector {
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc("informd_target_"+name, help, append([]string{"target"}, labels...), nil)
	}
	return &targetCollector{
		manager:   m,
		state:     desc("state", "1 for the state that the target is in.", "state"),
		objects:   desc("objects", "Objects of the target that are known to exist."),
		events:    desc("events_total", "Events that the target appended to the journal.", "op"),
		rejected:  desc("rejected_total", "Objects from the API server that could not be passed on; they are in the dead letters of the source."),
		unchanged: desc("unchanged_total", "Changes of which onlyWhenChanged or suppressNoop made no event."),
		unpaired:  desc("unpaired_total", "Events without what changes asks for, as the object before was not known."),
		states:    desc("state_bytes", "Memory that the objects' last states take, which changes needs with a memory journal."),
		watches:   desc("watches_total", "Watches that were opened."),
		failures:  desc("failures_total", "Requests and watches that ended in an error."),
		progress:  desc("progress_age_seconds", "Time since the API server last told something of the target, bookmarks included."),
		audits:    desc("audits_total", "Comparisons of what was announced with what the cluster holds."),
		divergences: prometheus.NewDesc("informd_audit_divergence_total", "Objects that such a comparison found to differ. They are announced then; the number should stay 0.",
			[]string{"target"}, nil),
		mismatches: prometheus.NewDesc("informd_audit_mismatches_total", "Objects that an API server showed otherwise than etcd holds them. Its watch cache is wrong.",
			[]string{"target"}, nil),
		blocked: desc("blocked_seconds", "How long the target has been waiting for the journal, 0 if it does not wait."),
		stuck:   desc("watches_stuck_total", "Watches that did not reach, in time, a revision that the API server had announced."),
	}
}

// Describe implements prometheus.Collector.
func (c *targetCollector) Describe(out chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{c.state, c.objects, c.events, c.rejected, c.unchanged, c.unpaired, c.states, c.watches, c.failures, c.progress, c.audits, c.divergences, c.mismatches, c.blocked, c.stuck} {
		out <- d
	}
}

// Collect implements prometheus.Collector.
func (c *targetCollector) Collect(out chan<- prometheus.Metric) {
	gauge := func(d *prometheus.Desc, value float64, labels ...string) {
		out <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, value, labels...)
	}
	counter := func(d *prometheus.Desc, value uint64, labels ...string) {
		out <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(value), labels...)
	}
	for _, t := range c.manager.Targets() {
		gauge(c.state, 1, t.Name, string(t.State))
		gauge(c.objects, float64(t.Objects), t.Name)
		for op, n := range t.Events {
			counter(c.events, n, t.Name, string(op))
		}
		counter(c.rejected, t.Rejected, t.Name)
		counter(c.unchanged, t.Unchanged, t.Name)
		counter(c.unpaired, t.Unpaired, t.Name)
		gauge(c.states, float64(t.StateBytes), t.Name)
		counter(c.watches, t.Watches, t.Name)
		counter(c.failures, t.Failures, t.Name)
		counter(c.audits, t.Audits, t.Name)
		counter(c.divergences, t.Divergences, t.Name)
		counter(c.mismatches, t.Mismatched, t.Name)
		counter(c.stuck, t.Stuck, t.Name)
		gauge(c.blocked, blockedFor(t.BlockedSince), t.Name)
		if !t.Progress.IsZero() {
			gauge(c.progress, time.Since(t.Progress).Seconds(), t.Name)
		}
	}
}

// blockedFor is how many seconds have passed since then, 0 if it is zero.
func blockedFor(since time.Time) float64 {
	if since.IsZero() {
		return 0
	}
	return time.Since(since).Seconds()
}

func registerMetrics(r *prometheus.Registry, m *dynwatch.Manager, j *store) error {
	gauge := func(name, help string, value func(journal.Stats) uint64) prometheus.Collector {
		return prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "informd_journal_" + name, Help: help},
			func() float64 { return float64(value(j.Stats())) })
	}
	counter := func(name, help string, value func(journal.Stats) uint64) prometheus.Collector {
		return prometheus.NewCounterFunc(prometheus.CounterOpts{Name: "informd_journal_" + name, Help: help},
			func() float64 { return float64(value(j.Stats())) })
	}
	for _, c := range []prometheus.Collector{
		newTargetCollector(m),
		newDroppedCollector(j),
		gauge("events", "Events that the journal holds.", func(s journal.Stats) uint64 { return s.Events }),
		gauge("bytes", "Bytes that the journal holds.", func(s journal.Stats) uint64 { return s.Bytes }),
		gauge("capacity_bytes", "Bytes that the journal can hold.", func(s journal.Stats) uint64 { return s.Capacity }),
		gauge("blocked", "Targets that wait for room in the journal: a sink holds everything back.",
			func(s journal.Stats) uint64 { return uint64(s.Blocked) }),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "informd_journal_usable", Help: "1 while events can be appended to the journal, 0 while it is lost, not reachable or not held."},
			j.usable),
		counter("lost_total", "How often the journal was found to lack events that it had acknowledged.", func(s journal.Stats) uint64 { return s.Lost }),
		counter("oversize_total", "Objects that the journal could not keep, events that went on without them.", func(s journal.Stats) uint64 { return s.Oversize }),
		counter("foreign_total", "Messages in the journal's stream that are none of informd's.", func(s journal.Stats) uint64 { return s.Foreign }),
		counter("unstorable_total", "Events that the journal's server never takes: they are in the dead letters of the source, and no sink gets them.", func(s journal.Stats) uint64 { return s.Unstorable }),
		counter("overtaken_total", "How often history that is made up for gave up waiting for a sink, which may miss some of it.", func(s journal.Stats) uint64 { return s.Overtaken }),
		collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
	} {
		if err := r.Register(c); err != nil {
			return err
		}
	}
	return nil
}

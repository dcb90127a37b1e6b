package daemon

import (
	"runtime"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"github.com/informd/informd/internal/daemon/internal/store"
	"github.com/informd/informd/pkg/dynwatch"
	"github.com/informd/informd/pkg/event"
	"github.com/informd/informd/pkg/journal"
)

// targetCollector turns what the manager says of its targets into metrics when
// they are read, so that the loops count nothing twice and a target's series go
// with it.
type targetCollector struct {
	// list returns the states of all targets.
	list func() []dynwatch.TargetStatus

	mu sync.Mutex
	// own are the names of targets with series of their own, others the further targets at the
	// last scrape. A target stays in the same map while it exists.
	own    map[string]bool
	others map[string]dynwatch.TargetStatus
	// ended are the counts of others that ended: the counters of otherTargets never decrease.
	ended dynwatch.TargetStatus
	// shared: there were others at some time, so that their series stay.
	shared bool

	state, objects, events, rejected, unchanged, unpaired, states, watches, failures, progress, lists, listTime, watchTime, audits, divergences, mismatches, blocked, stuck, gaps, walked, targets *prometheus.Desc
}

// maxTargetSeries is the number of targets with series of their own, so that a wildcard over
// thousands of resources does not overload the monitoring. Further ones share the series of
// otherTargets.
const (
	maxTargetSeries = 500
	otherTargets    = "(other)"
)

func newTargetCollector(list func() []dynwatch.TargetStatus) *targetCollector {
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc("informd_target_"+name, help, append([]string{"target"}, labels...), nil)
	}
	return &targetCollector{
		list: list, ended: newSum(),
		state:     desc("state", "1 for the state of the target, 0 for the others.", "state"),
		objects:   desc("objects", "An object of the target that exists."),
		events:    desc("events_total", "An event that the target appended to the journal.", "op"),
		rejected:  desc("rejected_total", "An object of the API server that informd cannot emit; it is in the dead letters of the source."),
		unchanged: desc("unchanged_total", "A change without an event, because emitWhen filtered it out."),
		unpaired:  desc("unpaired_total", "An event without its changes, because the previous state of the object is unknown."),
		states:    desc("state_bytes", "A byte of memory for the last states of objects, which changes needs with a memory journal."),
		watches:   desc("watches_total", "A watch that informd opened."),
		failures:  desc("failures_total", "A request or a watch that ended with an error."),
		progress:  desc("progress_age_seconds", "A second since the last message of the API server for the target, bookmarks included."),
		lists:     desc("lists_total", "A complete list of the target."),
		listTime:  desc("list_seconds_total", "A second of a complete list, waits for the journal included."),
		watchTime: desc("watch_seconds_total", "A second of a watch that has ended."),
		audits:    desc("audits_total", "An audit, which compares the announced objects with the cluster."),
		divergences: prometheus.NewDesc("informd_audit_divergences_total", "An object that an audit found to differ from the announced one; informd then announces it.",
			[]string{"target"}, nil),
		mismatches: prometheus.NewDesc("informd_audit_mismatches_total", "An object whose state differs between an API server and etcd, because a watch cache is wrong.",
			[]string{"target"}, nil),
		blocked: desc("blocked_seconds", "A second for which the target has waited for the journal, 0 if it does not wait."),
		gaps:    desc("gaps_total", "A gap event of the target: revisions may be missing.", "reason"),
		walked:  desc("walk_requests_total", "A request for an old revision, which recovers lost history."),
		targets: prometheus.NewDesc("informd_target_states", "A target in the state.", []string{"state"}, nil),
		stuck:   desc("watches_stuck_total", "A watch that did not reach a revision of the API server in time."),
	}
}

// Describe implements prometheus.Collector.
func (c *targetCollector) Describe(out chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{c.state, c.objects, c.events, c.rejected, c.unchanged, c.unpaired, c.states, c.watches, c.failures, c.progress, c.lists, c.listTime, c.watchTime, c.audits, c.divergences, c.mismatches, c.blocked, c.stuck, c.gaps, c.walked, c.targets} {
		out <- d
	}
}

// Collect implements prometheus.Collector.
func (c *targetCollector) Collect(out chan<- prometheus.Metric) {
	c.mu.Lock()
	defer c.mu.Unlock()
	all := c.list()
	c.share(all)
	inState, inOther := make(map[dynwatch.State]int), make(map[dynwatch.State]int)
	other := newSum()
	addCounters(&other, &c.ended)
	for i := range all {
		t := &all[i]
		inState[t.State]++
		if !c.own[t.Name] {
			inOther[t.State]++
			addCounters(&other, t)
			addGauges(&other, t)
			continue
		}
		c.collectStates(out, t.Name, map[dynwatch.State]int{t.State: 1})
		c.collect(out, t)
	}
	if c.shared {
		c.collectStates(out, other.Name, inOther)
		c.collect(out, &other)
	}
	for _, state := range dynwatch.States() {
		out <- prometheus.MustNewConstMetric(c.targets, prometheus.GaugeValue, float64(inState[state]), string(state))
	}
}

// share decides which targets have series of their own, and notes the counts of the others.
// c.mu is held.
func (c *targetCollector) share(all []dynwatch.TargetStatus) {
	own := make(map[string]bool, min(len(all), maxTargetSeries))
	for i := range all {
		if c.own[all[i].Name] {
			own[all[i].Name] = true
		}
	}
	others := make(map[string]dynwatch.TargetStatus)
	for i := range all {
		t := &all[i]
		last, other := c.others[t.Name]
		switch {
		case own[t.Name]:
			continue
		case !other && len(own) < maxTargetSeries:
			own[t.Name] = true
			continue
		}
		if t.Started.Equal(last.Started) {
			delete(c.others, t.Name) // the same target, not another one of its name
		}
		others[t.Name] = *t
	}
	for _, t := range c.others {
		addCounters(&c.ended, &t)
	}
	c.own, c.others = own, others
	c.shared = c.shared || len(others) > 0
}

func newSum() dynwatch.TargetStatus {
	return dynwatch.TargetStatus{Name: otherTargets, Events: make(map[event.Op]uint64), Gaps: make(map[string]uint64)}
}

// addCounters adds the counts of a target to a sum.
func addCounters(sum, t *dynwatch.TargetStatus) {
	for op, n := range t.Events {
		sum.Events[op] += n
	}
	for reason, n := range t.Gaps {
		sum.Gaps[reason] += n
	}
	sum.WalkRequests += t.WalkRequests
	sum.Rejected += t.Rejected
	sum.Unchanged += t.Unchanged
	sum.Unpaired += t.Unpaired
	sum.Watches += t.Watches
	sum.WatchTime += t.WatchTime
	sum.Failures += t.Failures
	sum.Lists += t.Lists
	sum.ListTime += t.ListTime
	sum.Audits += t.Audits
	sum.Divergences += t.Divergences
	sum.Mismatched += t.Mismatched
	sum.Stuck += t.Stuck
}

// addGauges adds the values of a target to a sum. The progress of a sum is the oldest, and it
// is blocked since its first target is.
func addGauges(sum, t *dynwatch.TargetStatus) {
	older := func(a, b time.Time) time.Time {
		if a.IsZero() || !b.IsZero() && b.Before(a) {
			return b
		}
		return a
	}
	sum.Objects += t.Objects
	sum.StateBytes += t.StateBytes
	sum.Progress, sum.BlockedSince = older(sum.Progress, t.Progress), older(sum.BlockedSince, t.BlockedSince)
}

// collectStates exports how many targets of a name are in each state.
func (c *targetCollector) collectStates(out chan<- prometheus.Metric, name string, in map[dynwatch.State]int) {
	for _, state := range dynwatch.States() {
		out <- prometheus.MustNewConstMetric(c.state, prometheus.GaugeValue, float64(in[state]), name, string(state))
	}
}

// collect exports a target, or the sum of several.
func (c *targetCollector) collect(out chan<- prometheus.Metric, t *dynwatch.TargetStatus) {
	gauge := func(d *prometheus.Desc, value float64) {
		out <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, value, t.Name)
	}
	counter := func(d *prometheus.Desc, value float64, labels ...string) {
		out <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, value, append([]string{t.Name}, labels...)...)
	}
	for reason, n := range t.Gaps {
		counter(c.gaps, float64(n), reason)
	}
	for op, n := range t.Events {
		counter(c.events, float64(n), string(op))
	}
	gauge(c.objects, float64(t.Objects))
	counter(c.walked, float64(t.WalkRequests))
	counter(c.rejected, float64(t.Rejected))
	counter(c.unchanged, float64(t.Unchanged))
	counter(c.unpaired, float64(t.Unpaired))
	gauge(c.states, float64(t.StateBytes))
	counter(c.watches, float64(t.Watches))
	counter(c.watchTime, t.WatchTime.Seconds())
	counter(c.failures, float64(t.Failures))
	counter(c.lists, float64(t.Lists))
	counter(c.listTime, t.ListTime.Seconds())
	counter(c.audits, float64(t.Audits))
	counter(c.divergences, float64(t.Divergences))
	counter(c.mismatches, float64(t.Mismatched))
	counter(c.stuck, float64(t.Stuck))
	gauge(c.blocked, blockedFor(t.BlockedSince))
	if !t.Progress.IsZero() {
		gauge(c.progress, time.Since(t.Progress).Seconds())
	}
}

// oneIf is 1 for true, 0 for false.
func oneIf(is bool) float64 {
	if is {
		return 1
	}
	return 0
}

// blockedFor is how many seconds have passed since then, 0 if it is zero.
func blockedFor(since time.Time) float64 {
	if since.IsZero() {
		return 0
	}
	return time.Since(since).Seconds()
}

// buildInfo is a metric with the version of the binary.
func buildInfo(version string) prometheus.Collector {
	info := prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "informd_build_info", Help: "1, with the version of informd and of Go as labels.",
		ConstLabels: prometheus.Labels{"version": version, "goversion": runtime.Version()},
	})
	info.Set(1)
	return info
}

// usableCollector shows whether informd can append events: also before the journal is open,
// so that an alert fires for a journal that cannot be reached at the start. A standby, which
// has no journal, has no series.
type usableCollector struct {
	desc *prometheus.Desc
	// usable reports whether the journal can be used, and whether this informd is to have one.
	usable func() (ok, mine bool)
}

func newUsableCollector(usable func() (ok, mine bool)) *usableCollector {
	return &usableCollector{usable: usable, desc: prometheus.NewDesc("informd_journal_usable",
		"1 while informd can append events, 0 while the journal is not open, lost, unreachable or held by another informd; absent on a standby.", nil, nil)}
}

// Describe implements [prometheus.Collector].
func (c *usableCollector) Describe(out chan<- *prometheus.Desc) { out <- c.desc }

// Collect implements [prometheus.Collector].
func (c *usableCollector) Collect(out chan<- prometheus.Metric) {
	if ok, mine := c.usable(); mine {
		out <- prometheus.MustNewConstMetric(c.desc, prometheus.GaugeValue, oneIf(ok))
	}
}

// leaseMetric shows whether this informd holds the lease of a nats journal.
func leaseMetric(h *store.Health) prometheus.Collector {
	return prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "informd_journal_lease_held", Help: "1 while this informd holds the lease of a nats journal, 0 on a standby and while the lease is not refreshed.",
	}, func() float64 { return oneIf(h.HoldsLease()) })
}

func registerMetrics(r prometheus.Registerer, m *dynwatch.Manager, j *store.Store) error {
	gauge := func(name, help string, value func(journal.Stats) uint64) prometheus.Collector {
		return prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "informd_journal_" + name, Help: help},
			func() float64 { return float64(value(j.Stats())) })
	}
	counter := func(name, help string, value func(journal.Stats) uint64) prometheus.Collector {
		return prometheus.NewCounterFunc(prometheus.CounterOpts{Name: "informd_journal_" + name, Help: help},
			func() float64 { return float64(value(j.Stats())) })
	}
	for _, c := range []prometheus.Collector{
		newTargetCollector(m.Targets),
		newDroppedCollector(j),
		gauge("events", "An event in the journal.", func(s journal.Stats) uint64 { return s.Events }),
		gauge("bytes", "A byte that the journal uses.", func(s journal.Stats) uint64 { return s.Bytes }),
		gauge("capacity_bytes", "A byte of the capacity of the journal.", func(s journal.Stats) uint64 { return s.Capacity }),
		gauge("blocked", "A target that waits for free capacity in the journal.",
			func(s journal.Stats) uint64 { return uint64(s.Blocked) }),
		counter("lost_total", "A time that the journal lacked events that it had acknowledged.", func(s journal.Stats) uint64 { return s.Lost }),
		counter("oversize_total", "An object that is too large for the journal; its event has no object.", func(s journal.Stats) uint64 { return s.Oversize }),
		counter("foreign_total", "A message of another client in the stream of the journal; informd skips it.", func(s journal.Stats) uint64 { return s.Foreign }),
		counter("unstorable_total", "An event that the server of the journal refuses for good; it is in the dead letters of the source.", func(s journal.Stats) uint64 { return s.Unstorable }),
		counter("overtaken_total", "A time that recovered history stopped waiting for a sink, which may get a gap.", func(s journal.Stats) uint64 { return s.Overtaken }),
		collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
	} {
		if err := r.Register(c); err != nil {
			return err
		}
	}
	return nil
}

package daemon

import (
	"maps"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"github.com/informd/informd/internal/config"
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
	ended totals
	// shared: there were others at some time, so that their series stay.
	shared bool

	series                                 []series
	state, events, gaps, progress, targets *prometheus.Desc
}

// maxTargetSeries is the number of targets with series of their own, so that a wildcard over
// thousands of resources does not overload the monitoring. Further ones share the series of
// otherTargets.
const (
	maxTargetSeries = 500
	otherTargets    = "(other)"
)

type status = *dynwatch.TargetStatus

// series is a metric with one value for each target.
type series struct {
	desc *prometheus.Desc
	kind prometheus.ValueType
	of   func(t status) float64
	// largest: the value of several targets is the largest one, not their sum.
	largest bool
}

// totals are the values of a target, or of several.
type totals struct {
	values   []float64 // by series
	events   map[event.Op]uint64
	gaps     map[string]uint64
	progress time.Time // the oldest one
}

func newTargetCollector(list func() []dynwatch.TargetStatus) *targetCollector {
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc("informd_"+name, help, append([]string{"target"}, labels...), nil)
	}
	counter := func(name, help string, of func(t status) uint64) series {
		return series{desc: desc(name, help), kind: prometheus.CounterValue, of: func(t status) float64 { return float64(of(t)) }}
	}
	seconds := func(name, help string, of func(t status) time.Duration) series {
		return series{desc: desc(name, help), kind: prometheus.CounterValue, of: func(t status) float64 { return of(t).Seconds() }}
	}
	gauge := func(name, help string, of func(t status) float64) series {
		return series{desc: desc(name, help), kind: prometheus.GaugeValue, of: of}
	}
	blocked := gauge("target_blocked_seconds", "Seconds for which the target has waited for the journal, 0 if it does not wait.", func(t status) float64 { return blockedFor(t.BlockedSince) })
	blocked.largest = true
	c := &targetCollector{
		list:     list,
		state:    desc("target_state", "1 if the target is in the state, else 0.", "state"),
		events:   desc("target_events_total", "Events that the target appended to the journal.", "op"),
		gaps:     desc("target_gaps_total", "Gap events of the target, by reason: revisions may be missing.", "reason"),
		progress: desc("target_progress_age_seconds", "Seconds since the last message of the API server for the target, bookmarks included."),
		targets:  prometheus.NewDesc("informd_target_states", "Targets in the state.", []string{"state"}, nil),
		series: []series{
			gauge("target_objects", "Objects of the target that exist.", func(t status) float64 { return float64(t.Objects) }),
			counter("target_rejected_total", "Objects of the API server that informd cannot emit; they are in the dead letters of the source.", func(t status) uint64 { return t.Rejected }),
			counter("target_unchanged_total", "Changes without an event, because emitWhen filtered them out.", func(t status) uint64 { return t.Unchanged }),
			counter("target_unpaired_total", "Events without their changes, because the previous state of the object is unknown.", func(t status) uint64 { return t.Unpaired }),
			counter("target_watches_total", "Watches that informd opened.", func(t status) uint64 { return t.Watches }),
			counter("target_failures_total", "Requests and watches that ended with an error.", func(t status) uint64 { return t.Failures }),
			counter("target_lists_total", "Complete lists of the target.", func(t status) uint64 { return t.Lists }),
			seconds("target_list_seconds_total", "Seconds spent in complete lists, waits for the journal included.", func(t status) time.Duration { return t.ListTime }),
			seconds("target_watch_seconds_total", "Seconds spent in watches that have ended.", func(t status) time.Duration { return t.WatchTime }),
			counter("target_audits_total", "Audits, which compare the announced objects with the cluster.", func(t status) uint64 { return t.Audits }),
			counter("audit_divergences_total", "Objects that an audit found to differ from the announced ones; informd then announces them.", func(t status) uint64 { return t.Divergences }),
			blocked,
			counter("target_watches_stuck_total", "Watches that did not reach a revision of the API server in time.", func(t status) uint64 { return t.Stuck }),
			counter("target_walk_requests_total", "Requests for old revisions, which recover lost history.", func(t status) uint64 { return t.WalkRequests }),
		},
	}
	c.ended = c.none()
	return c
}

func (c *targetCollector) Describe(out chan<- *prometheus.Desc) {
	out <- c.state
	for _, s := range c.series {
		out <- s.desc
	}
	for _, d := range []*prometheus.Desc{c.events, c.progress, c.gaps, c.targets} {
		out <- d
	}
}

func (c *targetCollector) Collect(out chan<- prometheus.Metric) {
	c.mu.Lock()
	defer c.mu.Unlock()
	all := c.list()
	c.share(all)
	inState, inOther := make(map[dynwatch.State]int), make(map[dynwatch.State]int)
	other := totals{slices.Clone(c.ended.values), maps.Clone(c.ended.events), maps.Clone(c.ended.gaps), time.Time{}}
	for i := range all {
		t := &all[i]
		inState[t.State]++
		if !c.own[t.Name] {
			inOther[t.State]++
			c.add(&other, t, true)
			continue
		}
		single := c.none()
		c.add(&single, t, true)
		c.collect(out, t.Name, map[dynwatch.State]int{t.State: 1}, single)
	}
	if c.shared {
		c.collect(out, otherTargets, inOther, other)
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
		c.add(&c.ended, &t, false)
	}
	c.own, c.others = own, others
	c.shared = c.shared || len(others) > 0
}

func (c *targetCollector) none() totals {
	return totals{values: make([]float64, len(c.series)), events: make(map[event.Op]uint64), gaps: make(map[string]uint64)}
}

// add adds the counts of a target to totals, and its gauges only if it exists.
func (c *targetCollector) add(to *totals, t *dynwatch.TargetStatus, exists bool) {
	for op, n := range t.Events {
		to.events[op] += n
	}
	for reason, n := range t.Gaps {
		to.gaps[reason] += n
	}
	for i, s := range c.series {
		switch {
		case s.kind == prometheus.GaugeValue && !exists:
		case s.largest:
			to.values[i] = max(to.values[i], s.of(t))
		default:
			to.values[i] += s.of(t)
		}
	}
	if exists && !t.Progress.IsZero() && (to.progress.IsZero() || t.Progress.Before(to.progress)) {
		to.progress = t.Progress
	}
}

// collect exports a target, or several, and how many of them are in each state.
func (c *targetCollector) collect(out chan<- prometheus.Metric, name string, in map[dynwatch.State]int, all totals) {
	send := func(d *prometheus.Desc, kind prometheus.ValueType, value float64, labels ...string) {
		out <- prometheus.MustNewConstMetric(d, kind, value, append([]string{name}, labels...)...)
	}
	for _, state := range dynwatch.States() {
		send(c.state, prometheus.GaugeValue, float64(in[state]), string(state))
	}
	for op, n := range all.events {
		send(c.events, prometheus.CounterValue, float64(n), string(op))
	}
	for reason, n := range all.gaps {
		send(c.gaps, prometheus.CounterValue, float64(n), reason)
	}
	for i, s := range c.series {
		send(s.desc, s.kind, all.values[i])
	}
	if !all.progress.IsZero() {
		send(c.progress, prometheus.GaugeValue, time.Since(all.progress).Seconds())
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

// collector is a metric whose series are made when they are read.
type collector struct {
	desc    *prometheus.Desc
	collect func(send func(value float64, labels ...string))
	kind    prometheus.ValueType
}

func (c *collector) Describe(out chan<- *prometheus.Desc) { out <- c.desc }

func (c *collector) Collect(out chan<- prometheus.Metric) {
	c.collect(func(value float64, labels ...string) {
		out <- prometheus.MustNewConstMetric(c.desc, c.kind, value, labels...)
	})
}

// newUsableCollector shows whether informd can append events: also before the journal is open,
// so that an alert fires for a journal that cannot be reached at the start. A follower, which
// has no journal, has no series. Usable reports whether the journal can be used, and whether
// this informd is to have one.
func newUsableCollector(usable func() (ok, mine bool)) prometheus.Collector {
	desc := prometheus.NewDesc("informd_journal_usable",
		"1 while informd can append events, 0 while the journal is not open, or its disk is full, hangs or is gone; absent on a follower.", nil, nil)
	return &collector{desc, func(send func(float64, ...string)) {
		if ok, mine := usable(); mine {
			send(oneIf(ok))
		}
	}, prometheus.GaugeValue}
}

// newDroppedCollector exports [journal.Stats.Dropped], which bounds the namespaces.
func newDroppedCollector(j *clusterJournal) prometheus.Collector {
	desc := prometheus.NewDesc("informd_journal_dropped_total",
		"Events that the full journal removed before every sink had them; a sink without them gets a gap event.", []string{"namespace"}, nil)
	return &collector{desc, func(send func(float64, ...string)) {
		dropped := j.Stats().Dropped
		for namespace, n := range dropped {
			send(float64(n), namespace)
		}
		if _, ok := dropped[journal.OtherNamespaces]; !ok { // one series exists from the start
			send(0, journal.OtherNamespaces)
		}
	}, prometheus.CounterValue}
}

// newLetterCollector exports the lengths of the dead-letter queues. Sinks names the sinks of the
// config, counts has the queues that are not empty.
func newLetterCollector(sinks func() []string, counts func() map[string]uint64) prometheus.Collector {
	desc := prometheus.NewDesc("informd_sink_dead_letters",
		"Dead letters in the queue of the sink, which can be source or a sink that left the config.", []string{"sink"}, nil)
	return &collector{desc, func(send func(float64, ...string)) {
		counts := counts()
		for sink, n := range counts {
			send(float64(n), sink)
		}
		for _, sink := range append(sinks(), config.SourceName) {
			if counts[sink] == 0 { // an empty queue has a series
				send(0, sink)
			}
		}
	}, prometheus.GaugeValue}
}

func registerMetrics(r prometheus.Registerer, m *dynwatch.Manager, j *clusterJournal) error {
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
		gauge("events", "Events in the journal.", func(s journal.Stats) uint64 { return s.Events }),
		gauge("bytes", "Bytes that the journal uses.", func(s journal.Stats) uint64 { return s.Bytes }),
		gauge("capacity_bytes", "Capacity of the journal in bytes.", func(s journal.Stats) uint64 { return s.Capacity }),
		gauge("blocked", "Targets that wait for free capacity in the journal.",
			func(s journal.Stats) uint64 { return uint64(s.Blocked) }),
		counter("appended_bytes_total", "Bytes appended to the log.", func(s journal.Stats) uint64 { return s.Appended }),
		counter("written_bytes_total", "Bytes written to the disk of the log, compaction included.", func(s journal.Stats) uint64 { return s.Written }),
		j.SyncSeconds,
		counter("lost_total", "Times that the journal lacked events that it had acknowledged.", func(s journal.Stats) uint64 { return s.Lost }),
		collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
	} {
		if err := r.Register(c); err != nil {
			return err
		}
	}
	return nil
}

package chaos

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
)

// examples is how many violations of one invariant are told in full.
const examples = 3

// Report is what a run found out.
type Report struct {
	Seed       uint64
	Journal    string
	Subject    string // "informd" or "baseline"
	Seconds    float64
	Writes     int64
	Revisions  int // that etcd recorded
	Objects    int
	Deletions  int
	MaxRSS     uint64
	Faults     []FaultReport
	Sinks      []SinkReport
	Violations map[string]int // by invariant
	// Details are the first violations of each invariant, the object's history
	// beside what was delivered of it.
	Details []string
}

// FaultReport sums up the faults of one kind. The recovery is the time from the
// healing until every sink had all from before it.
type FaultReport struct {
	Name   string
	Count  int
	Errors int // of the injection itself
	P50    float64
	P99    float64
	Max    float64
}

// SinkReport sums up what one sink received.
type SinkReport struct {
	Name       string
	Deliveries int
	Repeats    int
	Refused    int
	Gaps       map[string]int // by reason and recovery
	Excused    map[string]int // revisions that are missing and may be, by reason
	P50        float64
	P99        float64
	Violations map[string]int // by invariant
}

// Broken reports whether any invariant is.
func (r *Report) Broken() bool { return len(r.Violations) > 0 }

func newReport(r *run, truth *Truth, strikes []Strike) *Report {
	written, _ := r.workload.Writes()
	report := &Report{
		Seed: r.options.Seed, Journal: r.options.Journal, Subject: "informd", Seconds: time.Since(r.began).Seconds(),
		Writes: written, Objects: len(truth.Objects), Violations: make(map[string]int),
	}
	if r.options.Baseline {
		report.Subject, report.Journal = "baseline", "none"
	}
	for _, o := range truth.Objects {
		report.Revisions += len(o.Revisions)
		if last, ok := o.last(); ok && last.Deleted {
			report.Deletions++
		}
	}
	report.Faults = faultReports(strikes)
	for _, c := range r.rig.consumers() {
		var delays []time.Duration
		for _, d := range c.tracker.Delays() {
			delays = append(delays, d.For)
		}
		report.Sinks = append(report.Sinks, SinkReport{
			Name: c.name, P50: percentile(delays, 50).Seconds(), P99: percentile(delays, 99).Seconds(),
			Gaps: make(map[string]int), Violations: make(map[string]int),
		})
	}
	return report
}

func faultReports(strikes []Strike) []FaultReport {
	byName := make(map[string]*FaultReport)
	recoveries := make(map[string][]time.Duration)
	for _, s := range strikes {
		f := byName[s.Fault]
		if f == nil {
			f = &FaultReport{Name: s.Fault}
			byName[s.Fault] = f
		}
		f.Count++
		if s.Err != "" {
			f.Errors++
		}
		if !s.Caught.IsZero() {
			recoveries[s.Fault] = append(recoveries[s.Fault], s.Caught.Sub(s.Healed))
		}
	}
	var all []FaultReport
	for name, f := range byName {
		f.P50, f.P99 = percentile(recoveries[name], 50).Seconds(), percentile(recoveries[name], 99).Seconds()
		f.Max = percentile(recoveries[name], 100).Seconds()
		all = append(all, *f)
	}
	slices.SortFunc(all, func(a, b FaultReport) int { return cmp.Compare(a.Name, b.Name) })
	return all
}

// addSink adds what was received by a sink and what is wrong with it.
func (r *Report) addSink(truth *Truth, sink *Sink, v verdict) {
	i := slices.IndexFunc(r.Sinks, func(s SinkReport) bool { return s.Name == sink.Name })
	s := &r.Sinks[i]
	s.Deliveries, s.Repeats, s.Refused = len(sink.Deliveries), repeats(sink.Deliveries), len(sink.Refused)
	for _, d := range sink.Deliveries {
		if d.Op == opGap {
			s.Gaps[d.Reason+"/"+d.Recovered]++
		}
	}
	s.Excused = v.excuses
	for _, v := range v.violations {
		s.Violations[v.Invariant]++
		r.addViolation(truth, sink, v)
	}
}

// addViolation counts a violation and tells the first ones of each invariant.
func (r *Report) addViolation(truth *Truth, sink *Sink, v Violation) {
	r.Violations[v.Invariant]++
	if r.Violations[v.Invariant] <= examples {
		r.Details = append(r.Details, fmt.Sprintf("%s %s: %s\n%s", v.Invariant, v.Sink, v.Text, sideBySide(truth, sink, v.UID)))
	}
}

// sideBySide shows what etcd recorded of an object, and what was delivered.
func sideBySide(truth *Truth, sink *Sink, uid string) string {
	if uid == "" || sink == nil {
		return ""
	}
	var b strings.Builder
	if o := truth.Objects[uid]; o != nil {
		fmt.Fprintf(&b, "  etcd, %s uid %s:\n", o.key(), uid)
		for _, r := range o.Revisions {
			fmt.Fprintf(&b, "    %s %d epoch %d deleted=%t undone=%t %x\n", r.Seen.Format(clock), r.RV, r.Epoch, r.Deleted, r.Undone, r.Hash[:3])
		}
	}
	fmt.Fprintf(&b, "  sink %s:\n", sink.Name)
	target := ""
	if o := truth.Objects[uid]; o != nil {
		target = o.Target
	}
	for i, d := range sink.Deliveries {
		switch {
		case d.UID == uid:
			fmt.Fprintf(&b, "    %s #%d %s %s rv %d prev %d ordinal %d replay=%t %x\n", d.At.Format(clock), i, d.Op, d.ID, d.RV, d.PrevRV, d.Ordinal, d.Replay, d.Hash[:3])
		case d.Target == target && d.control():
			fmt.Fprintf(&b, "    %s #%d %s %s (%d, %d] %s %s\n", d.At.Format(clock), i, d.Op, d.ID, d.FromRV, d.ToRV, d.Reason, d.Recovered)
		}
	}
	return b.String()
}

const clock = "15:04:05.000"

// Write prints the report as tables.
func (r *Report) Write(w io.Writer) {
	fmt.Fprintf(w, "\n%s, seed %d, journal %s: %.0f s, %d writes, %d revisions of %d objects, %d deletions, max RSS %d MiB\n",
		r.Subject, r.Seed, r.Journal, r.Seconds, r.Writes, r.Revisions, r.Objects, r.Deletions, r.MaxRSS>>20)
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "fault\tcount\trecovery p50\tp99\tmax")
	total := 0
	for _, f := range r.Faults {
		fmt.Fprintf(t, "%s\t%d\t%.1f s\t%.1f s\t%.1f s\n", f.Name, f.Count, f.P50, f.P99, f.Max)
		total += f.Count
	}
	fmt.Fprintf(t, "all\t%d\n", total)
	fmt.Fprintln(t, "sink\tevents\trepeats\trefused\tdelay p50\tp99\tgaps\texcused\tbroken")
	for _, s := range r.Sinks {
		fmt.Fprintf(t, "%s\t%d\t%d\t%d\t%.3f s\t%.3f s\t%s\t%s\t%s\n", s.Name, s.Deliveries, s.Repeats, s.Refused, s.P50, s.P99, counts(s.Gaps), counts(s.Excused), counts(s.Violations))
	}
	_ = t.Flush() // to a terminal or a test's log
	for _, detail := range r.Details {
		fmt.Fprintln(w, detail)
	}
	if r.Broken() {
		fmt.Fprintf(w, "BROKEN: %s; repeat with CHAOS_SEED=%d\n", counts(r.Violations), r.Seed)
		return
	}
	fmt.Fprintln(w, "no invariant is broken")
}

func counts(m map[string]int) string {
	if len(m) == 0 {
		return "-"
	}
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(m)) {
		parts = append(parts, fmt.Sprintf("%s %d", name, m[name]))
	}
	return strings.Join(parts, ", ")
}

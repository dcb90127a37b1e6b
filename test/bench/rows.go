package main

import (
	"fmt"
	"math"
)

// row is one line of the table: what was measured, and whether it reaches what was
// set out for.
type row struct {
	Metric string
	Unit   string
	// Required and Aim are bounds, from above, or from below if More. NaN is none.
	Required, Aim float64
	More          bool
	Values        []float64
	// Absolute are the figures behind a ratio.
	Absolute string
}

// reached says whether the median keeps to a bound: "yes", "no", or what is in the way
// of an answer.
func (r row) reached(bound float64) string {
	median := spreadOf(r.Values).Median
	switch {
	case math.IsNaN(bound):
		return "-"
	case math.IsNaN(median):
		return "not measured"
	case r.More && median >= bound, !r.More && median <= bound:
		return "yes"
	default:
		return "no"
	}
}

// of picks a figure of the runs of a client in a case, by rounds.
func (b *bench) of(name string, k kind, figure func(run) float64) []float64 {
	var values []float64
	for _, r := range b.runs {
		if r.Case == name && r.Client == k {
			for len(values) <= r.Round {
				values = append(values, math.NaN())
			}
			values[r.Round] = figure(r)
		}
	}
	return values
}

func perUpdate(r run) float64 { return r.Stream.PerEvent() }
func perObject(r run) float64 { return r.Sync.PerEvent() }
func rate(r run) float64      { return r.Stream.Rate() }
func rss(r run) float64       { return r.RSS }
func mallocs(r run) float64   { return r.Stream.Mallocs / float64(max(1, r.Stream.Events)) }

// judge makes the rows from the runs.
func (b *bench) judge() {
	compare := func(metric string, required, aim float64, more bool, above, below []float64, unit string) {
		b.rows = append(b.rows, row{
			Metric: metric, Unit: "x", Required: required, Aim: aim, More: more, Values: ratios(above, below),
			Absolute: fmt.Sprintf("%s : %s %s", number(spreadOf(above).Median), number(spreadOf(below).Median), unit),
		})
	}
	compare("CPU per event at saturation, baseline : informd, core NATS", 25, 50, true, b.of(podsNATS, baseline, perUpdate), b.of(podsNATS, informd, perUpdate), "us")
	compare("CPU per event, informd : floor, no sink", 2, 1.3, false, b.of(podsNone, informd, perUpdate), b.of(podsNone, floor, perUpdate), "us")
	compare("events/s on one core, informd : baseline, core NATS", 30, 60, true, b.of(podsNATS, informd, rate), b.of(podsNATS, baseline, rate), "events/s")
	compare("events/s on one core, informd : baseline, no sink", math.NaN(), math.NaN(), true, b.of(podsNone, informd, rate), b.of(podsNone, baseline, rate), "events/s")
	many := b.of(manyPods, informd, rss)
	compare("RSS, 100k Pods, baseline (20k, scaled) : informd", 100, 200, true, b.scaledRSS(), many, "MiB")
	b.rows = append(b.rows, row{Metric: "RSS, 100k Pods", Unit: " MiB", Required: 64, Aim: 40, Values: many, Absolute: "peak " + number(spreadOf(b.of(manyPods, informd, func(r run) float64 { return r.Peak })).Median)})
	compare("CPU of the initial sync per object, baseline (20k) : informd (100k)", 30, 100, true, b.of(podsNATS, baseline, perObject), b.of(manyPods, informd, perObject), "us")
	b.rows = append(b.rows, row{Metric: "allocations per event, whole process, no sink", Unit: "", Required: 2, Aim: 0.05, Values: b.of(podsNone, informd, mallocs)})
	b.rows = append(b.rows, row{Metric: "CPU per event, no sink", Unit: " us", Required: 22, Aim: math.NaN(), Values: b.of(podsNone, informd, perUpdate)})
	for _, of := range []struct {
		kind     kind
		rate     int
		required float64
	}{{informd, 200, 8}, {informd, 2_000, 16}} {
		cpu := func(r rateRun) float64 { return r.CPU }
		compare(fmt.Sprintf("CPU per event at %d events/s, baseline : %s", of.rate, of.kind), of.required, math.NaN(), true,
			b.atRates(baseline, of.rate, cpu), b.atRates(of.kind, of.rate, cpu), "us")
	}
	b.judgeSinks()
	b.judgeBackfill()
	b.judgePair()
	b.judgeRestarts()
	b.judgeOthers()
}

// scaledRSS is the memory of the baseline with as many Pods as informd has in manyPods.
func (b *bench) scaledRSS() []float64 {
	scaled := b.of(podsNATS, baseline, rss)
	for i := range scaled {
		scaled[i] *= 5 // linear, measured at a fifth
	}
	return scaled
}

// judgeOthers makes the rows that are not from saturation.
func (b *bench) judgeOthers() {
	pick := func(from [][2]float64, i int) (values []float64) {
		for _, v := range from {
			values = append(values, v[i])
		}
		return values
	}
	median := func(values []float64) string { return number(spreadOf(values).Median) }
	latencies := func(k kind, i int) []float64 { return pick(b.latencies[k], i) }
	b.rows = append(b.rows,
		row{
			Metric: "p99 from server write to sink, 1,000 events/s, maxDelay: 0", Unit: " ms", Required: 1, Aim: 0.5, Values: latencies(informdAtOnce, 1),
			Absolute: fmt.Sprintf("p50 %s ms; baseline p50 %s, p99 %s ms", median(latencies(informdAtOnce, 0)), median(latencies(baseline, 0)), median(latencies(baseline, 1))),
		},
		row{
			Metric: "p99 from server write to sink, 1,000 events/s", Unit: " ms", Required: 55, Aim: math.NaN(), Values: latencies(informd, 1),
			Absolute: fmt.Sprintf("p50 %s ms", median(latencies(informd, 0))),
		},
		row{Metric: "idle, 50 targets, 10 events/s: share of one core", Unit: "%", Required: 0.4, Aim: 0.3, Values: b.idleShares[idleCases()[0]]},
		row{Metric: "idle, 300 targets, no events: share of one core", Unit: "%", Required: 0.2, Aim: math.NaN(), Values: b.idleShares[idleCases()[1]]},
	)
}

package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"
)

// The names of the measurements of this program in the file of figures. Those of sinks may be repeated alone.
const (
	benchCommand    = "make bench"
	sinksCommand    = "make bench ONLY=sinks"
	postgresCommand = "make bench ONLY=postgres"
)

// measurement is what one command measured: an element of docs/figures.json, of which the pages quote.
type measurement struct {
	Command  string  `json:"command"`
	Revision string  `json:"revision,omitempty"`
	Date     string  `json:"date"`
	Machine  string  `json:"machine"`
	Figures  figures `json:"figures"`
}

// figure is the median of some rounds.
type figure struct {
	Unit   string  `json:"unit"`
	Median float64 `json:"median"`
	Least  float64 `json:"least,omitempty"`
	Most   float64 `json:"most,omitempty"`
	Rounds int     `json:"rounds"`
}

// figures are what the pages may quote, by name. One that was not measured has no rounds.
type figures map[string]figure

func (f figures) add(name, unit string, values []float64) {
	s := spreadOf(values)
	f[name] = figure{Unit: unit, Median: digits(s.Median), Least: digits(s.Least), Most: digits(s.Most), Rounds: s.Runs}
}

// missing is the name of a figure that was not measured, "" if there is none.
func (f figures) missing() string {
	for name, one := range f {
		if one.Rounds == 0 {
			return name
		}
	}
	return ""
}

// sinkFigures are those of all sinks.
func (b *bench) sinkFigures() figures {
	all := make(figures)
	for _, t := range sinkTypes() {
		all.add("sink-"+string(t.kind)+".update", "us", b.of(sinkCase(t.kind), informd, perUpdate))
	}
	return all
}

// backfillFigures are those of PostgreSQL.
func (b *bench) backfillFigures() figures {
	all := make(figures)
	all.add("backfill.rate", "objects/s", b.ofBackfills(backfillRun.rate))
	for name, of := range map[string]func(backfillRun) effort{
		"informd": func(r backfillRun) effort { return r.Informd },
		"copy":    func(r backfillRun) effort { return r.Copy },
	} {
		all.add("backfill."+name+".wall", "s", b.ofBackfills(func(r backfillRun) float64 { return of(r).Wall }))
		all.add("backfill."+name+".client", "us", b.ofBackfills(func(r backfillRun) float64 { return r.perObject(of(r).Client) }))
		all.add("backfill."+name+".server", "us", b.ofBackfills(func(r backfillRun) float64 { return r.perObject(of(r).Server) }))
	}
	return all
}

// figures are those of all other cases.
func (b *bench) figures() figures {
	all := make(figures)
	add := all.add
	for _, k := range []kind{informd, baseline} {
		for _, of := range []struct{ name, in string }{{"nats", podsNATS}, {"none", podsNone}, {"stdout", podsStdout}} {
			add(of.name+"."+string(k)+".update", "us", b.of(of.in, k, perUpdate))
		}
		add("nats."+string(k)+".object", "us", b.of(podsNATS, k, perObject))
		add("nats."+string(k)+".rate", "events/s", b.of(podsNATS, k, rate))
	}
	add("many.informd.update", "us", b.of(manyPods, informd, perUpdate))
	add("many.informd.rss", "MiB", b.of(manyPods, informd, rss))
	add("many.baseline.rss", "MiB", b.scaledRSS())
	for name, k := range map[string]kind{"informd": informd, "memory": informdMemory, "baseline": baseline, "floor": floor} {
		for _, rate := range eventRates() {
			add(fmt.Sprintf("rate-%d.%s", rate, name), "us", b.atRates(k, rate, func(r rateRun) float64 { return r.CPU }))
		}
	}
	for name, objects := range map[string]int{"restart-200k": 200_000, "restart-1m": 1_000_000} {
		add(name+".live", "s", b.ofRestarts(objects, func(r restartRun) float64 { return r.Live }))
		add(name+".peak", "MiB", b.ofRestarts(objects, func(r restartRun) float64 { return r.LivePeak }))
	}
	add("restart-200k.rss", "MiB", b.ofRestarts(200_000, func(r restartRun) float64 { return r.RSS }))
	for _, one := range idleCases() {
		add(fmt.Sprintf("idle-%d.share", one.targets), "%", b.idleShares[one])
	}
	return all
}

// digits keeps four digits of a figure: more would pretend that it is exact.
func digits(v float64) float64 {
	short, err := strconv.ParseFloat(strconv.FormatFloat(v, 'g', 4, 64), 64)
	if err != nil {
		return math.NaN() // which no file takes
	}
	return short
}

// writeFigures replaces the measurements of this program in a file of which this run has all figures, and keeps
// the others.
func (b *bench) writeFigures(path, about string) error {
	if b.quick {
		return errors.New("a quick run has no figures to quote")
	}
	machine, version, _ := strings.Cut(about, "; ")
	var own []measurement
	var incomplete []error
	for _, of := range []struct {
		command string
		figures figures
	}{{benchCommand, b.figures()}, {sinksCommand, b.sinkFigures()}, {postgresCommand, b.backfillFigures()}} {
		if missing := of.figures.missing(); missing != "" {
			incomplete = append(incomplete, fmt.Errorf("figures of %s are written by a run of all its cases: %s was not measured", of.command, missing))
			continue
		}
		own = append(own, measurement{Command: of.command, Revision: version, Date: b.began.UTC().Format(time.DateOnly), Machine: machine, Figures: of.figures})
	}
	if len(own) == 0 {
		return errors.Join(incomplete...)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	var others []measurement
	if err := json.Unmarshal(text, &others); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	others = slices.DeleteFunc(others, func(m measurement) bool {
		return slices.ContainsFunc(own, func(o measurement) bool { return o.Command == m.Command })
	})
	if text, err = json.MarshalIndent(append(own, others...), "", "  "); err != nil {
		return err
	}
	return os.WriteFile(path, append(text, '\n'), 0o644)
}

package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"slices"
	"strings"
	"time"
)

// benchCommand names the measurement of this program in the file of figures.
const benchCommand = "make bench"

// measurement is what one command measured: an element of docs/figures.json, of which the pages quote.
type measurement struct {
	Command  string            `json:"command"`
	Revision string            `json:"revision,omitempty"`
	Date     string            `json:"date"`
	Machine  string            `json:"machine"`
	Figures  map[string]figure `json:"figures"`
}

// figure is the median of some rounds.
type figure struct {
	Unit   string  `json:"unit"`
	Median float64 `json:"median"`
	Least  float64 `json:"least,omitempty"`
	Most   float64 `json:"most,omitempty"`
	Rounds int     `json:"rounds"`
}

// figures returns what the pages may quote. A figure that was not measured is an error.
func (b *bench) figures() (map[string]figure, error) {
	all := make(map[string]figure)
	var missing []error
	add := func(name, unit string, values []float64) {
		s := spreadOf(values)
		if s.Runs == 0 {
			missing = append(missing, fmt.Errorf("%s was not measured", name))
			return
		}
		all[name] = figure{Unit: unit, Median: digits(s.Median), Least: digits(s.Least), Most: digits(s.Most), Rounds: s.Runs}
	}
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
	for name, k := range map[string]kind{"informd": informd, "memory": informdMemory, "baseline": baseline, "floor": floorHTTP1} {
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
	return all, errors.Join(missing...)
}

// digits keeps four digits of a figure: more would pretend that it is exact.
func digits(v float64) float64 {
	if v == 0 {
		return 0
	}
	place := math.Pow(10, math.Floor(math.Log10(math.Abs(v)))-3)
	return math.Round(v/place) * place
}

// writeFigures replaces the measurement of this program in a file, and keeps those of other commands.
func (b *bench) writeFigures(path, about string) error {
	if b.quick {
		return errors.New("a quick run has no figures to quote")
	}
	measured, err := b.figures()
	if err != nil {
		return fmt.Errorf("figures are written by a run of all cases: %w", err)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	var others []measurement
	if err := json.Unmarshal(text, &others); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	machine, version, _ := strings.Cut(about, "; ")
	own := measurement{Command: benchCommand, Revision: version, Date: b.began.UTC().Format(time.DateOnly), Machine: machine, Figures: measured}
	others = slices.DeleteFunc(others, func(m measurement) bool { return m.Command == benchCommand })
	if text, err = json.MarshalIndent(slices.Insert(others, 0, own), "", "  "); err != nil {
		return err
	}
	return os.WriteFile(path, append(text, '\n'), 0o644)
}

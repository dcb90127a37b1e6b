package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"
)

// number is a figure with about three digits.
func number(v float64) string {
	switch a := math.Abs(v); {
	case math.IsNaN(v):
		return "-"
	case a >= 100:
		return fmt.Sprintf("%.0f", v)
	case a >= 10:
		return fmt.Sprintf("%.1f", v)
	default:
		return fmt.Sprintf("%.2f", v)
	}
}

// machine says what the figures are of.
func machine(ctx context.Context, informd string) string {
	model := "unknown CPU"
	text, _ := os.ReadFile("/proc/cpuinfo") // what there is
	for line := range strings.Lines(string(text)) {
		if name, ok := strings.CutPrefix(line, "model name"); ok {
			model = strings.TrimSpace(strings.TrimLeft(name, "\t :"))
			break
		}
	}
	kernel, _ := os.ReadFile("/proc/sys/kernel/osrelease")
	version, err := exec.CommandContext(ctx, informd, "version").Output()
	if err != nil {
		version = []byte("informd of an unknown version")
	}
	load, _ := os.ReadFile("/proc/loadavg")
	return fmt.Sprintf("%d x %s, Linux %s, %s, load %s; %s", runtime.NumCPU(), model, strings.TrimSpace(string(kernel)), runtime.Version(),
		strings.Join(strings.Fields(string(load))[:min(3, len(strings.Fields(string(load))))], " "), strings.TrimSpace(string(version)))
}

func (b *bench) report(ctx context.Context, to io.Writer) error {
	about := machine(ctx, b.informd)
	fmt.Fprintf(to, "\n%s\n%s, %.0f s", about, time.Now().UTC().Format(time.RFC3339), time.Since(b.began).Seconds())
	if b.quick {
		fmt.Fprint(to, ", QUICK: whether it works, not how fast it is")
	}
	fmt.Fprint(to, "\n\n")
	results := &table{}
	results.add("metric", "median", "spread", "runs", "required", "reached", "aim", "reached", "absolute")
	for _, r := range b.rows {
		s := spreadOf(r.Values)
		median, between, absolute := "-", "-", ""
		if s.Runs > 0 {
			median, between, absolute = number(s.Median)+r.Unit, number(s.Least)+" to "+number(s.Most), r.Absolute
		}
		results.add(r.Metric, median, between, strconv.Itoa(s.Runs), bound(r, r.Required), r.reached(r.Required), bound(r, r.Aim), r.reached(r.Aim), absolute)
	}
	results.print(to)
	fmt.Fprintln(to)
	b.details().print(to)
	var failed []error
	if b.json != "" {
		failed = append(failed, b.writeJSON(about))
	}
	if b.quoted != "" {
		failed = append(failed, b.writeFigures(b.quoted, about))
	}
	return errors.Join(failed...)
}

// details are the medians of every client of every case.
func (b *bench) details() *table {
	type pair struct {
		name string
		kind kind
	}
	details := &table{}
	details.add("case", "client", "us/object", "us/update", "spread", "updates/s", "allocations/update", "RSS, MiB", "peak, MiB", "server, us/update", "runs")
	seen := make(map[pair]bool)
	for _, r := range b.runs {
		p := pair{r.Case, r.Client}
		if seen[p] {
			continue
		}
		seen[p] = true
		median := func(figure func(run) float64) string { return number(spreadOf(b.of(p.name, p.kind, figure)).Median) }
		update := spreadOf(b.of(p.name, p.kind, perUpdate))
		allocations := "-"
		if r.Stream.Mallocs > 0 {
			allocations = median(mallocs)
		}
		details.add(p.name, string(p.kind), median(perObject), number(update.Median), number(update.Least)+" to "+number(update.Most), median(rate), allocations,
			median(rss), median(func(r run) float64 { return r.Peak }), median(func(r run) float64 { return r.Server }), strconv.Itoa(update.Runs))
	}
	return details
}

func bound(r row, v float64) string {
	switch {
	case math.IsNaN(v):
		return "-"
	case r.More:
		return "at least " + number(v) + r.Unit
	default:
		return "at most " + number(v) + r.Unit
	}
}

// writeJSON writes rows and runs for programs.
func (b *bench) writeJSON(about string) error {
	type jsonRow struct {
		Metric, Unit, Required, Aim string
		ReachedRequired, ReachedAim string
		Median, Least, Most         *float64 // absent if it was not measured
		Values                      []float64
		Absolute                    string
	}
	document := struct {
		Machine string
		Date    time.Time
		Quick   bool
		Rows    []jsonRow
		Runs    []run
	}{Machine: about, Date: b.began.UTC(), Quick: b.quick, Runs: b.runs}
	for _, r := range b.rows {
		j := jsonRow{
			Metric: r.Metric, Unit: r.Unit, Required: bound(r, r.Required), Aim: bound(r, r.Aim),
			ReachedRequired: r.reached(r.Required), ReachedAim: r.reached(r.Aim), Values: slices.DeleteFunc(slices.Clone(r.Values), math.IsNaN), Absolute: r.Absolute,
		}
		if s := spreadOf(r.Values); s.Runs > 0 {
			j.Median, j.Least, j.Most = &s.Median, &s.Least, &s.Most
		}
		document.Rows = append(document.Rows, j)
	}
	text, err := json.MarshalIndent(document, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(b.json, append(text, '\n'), 0o644)
}

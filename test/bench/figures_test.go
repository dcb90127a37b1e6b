package main

import (
	"encoding/json"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"
)

// quotedNames are the names of the figures of a command in docs/figures.json.
func quotedNames(t *testing.T, command string) []string {
	t.Helper()
	for _, m := range readMeasurements(t, "../../docs/figures.json") {
		if m.Command == command {
			return slices.Sorted(maps.Keys(m.Figures))
		}
	}
	t.Fatal("docs/figures.json has no figures of " + command)
	return nil
}

func readMeasurements(t *testing.T, path string) (all []measurement) {
	t.Helper()
	text, err := os.ReadFile(filepath.Clean(path))
	if err == nil {
		err = json.Unmarshal(text, &all)
	}
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// TestWriteFigures: a run replaces the figures of this program that it has all of, and keeps the others. A run of a
// part of the cases, or a quick one, changes nothing.
func TestWriteFigures(t *testing.T) {
	path := filepath.Join(t.TempDir(), "figures.json")
	const before = `[{"command":"make bench","date":"2026-01-01","figures":{"old":{"median":1}}},{"command":"other","figures":{"kept":{"median":2}}}]`
	if err := os.WriteFile(path, []byte(before), 0o600); err != nil {
		t.Fatal(err)
	}
	b := &bench{began: time.Date(2026, 11, 28, 0, 0, 0, 0, time.UTC), idleShares: make(map[idleCase][]float64)}
	if err := b.writeFigures(path, "machine; version"); err == nil {
		t.Error("a run that measured nothing wrote figures")
	}
	measured := phase{Events: 1000, CPU: 33_333 * time.Microsecond, Wall: time.Second}
	for _, k := range []kind{informd, baseline} {
		for _, of := range []string{podsNATS, podsNone, podsStdout, manyPods} {
			b.runs = append(b.runs, run{Case: of, Client: k, Sync: measured, Stream: measured, RSS: 74.123456})
		}
	}
	for _, k := range []kind{informd, informdMemory, baseline, floor} {
		for _, rate := range eventRates() {
			b.rateRuns = append(b.rateRuns, rateRun{Client: k, Rate: rate, CPU: 1})
		}
	}
	b.restarts = []restartRun{{Objects: 200_000, RSS: 1, Live: 1, LivePeak: 1}, {Objects: 1_000_000, RSS: 1, Live: 1, LivePeak: 1}}
	for _, one := range idleCases() {
		b.idleShares[one] = []float64{1}
	}
	b.quick = true
	if err := b.writeFigures(path, "machine; version"); err == nil {
		t.Error("a quick run wrote figures")
	}
	if after := readMeasurements(t, path); len(after) != 2 || after[0].Figures["old"].Median != 1 {
		t.Errorf("a refused run changed the file: %+v", after)
	}
	b.quick = false
	if err := b.writeFigures(path, "machine; version"); err != nil {
		t.Fatal(err)
	}
	after := readMeasurements(t, path)
	if len(after) != 2 || after[1].Figures["kept"].Median != 2 || after[0].Revision != "version" || after[0].Machine != "machine" || after[0].Date != "2026-11-28" {
		t.Fatalf("the file is %+v", after)
	}
	wantQuotedNames(t, after[0])
	if got := after[0].Figures["nats.informd.update"]; got.Median != 33.33 || got.Unit != "us" || got.Rounds != 1 {
		t.Errorf("CPU per event is %+v", got)
	}
	if got := after[0].Figures["many.informd.rss"]; got.Median != 74.12 {
		t.Errorf("RSS is %+v", got)
	}
	sinks := &bench{}
	for _, k := range sinkTypes() {
		if err := sinks.writeFigures(path, "machine; version"); err == nil {
			t.Errorf("a run without the sink %s wrote figures", k.kind)
		}
		sinks.runs = append(sinks.runs, run{Case: sinkCase(k.kind), Client: informd, Stream: measured})
	}
	sinks.backfills = []backfillRun{{Objects: 1000, Informd: effort{Wall: 2, Client: 0.5, Server: 1}, Copy: effort{Wall: 1, Client: 1, Server: 1}}}
	if err := sinks.writeFigures(path, "machine; version"); err != nil {
		t.Fatal(err)
	}
	after = readMeasurements(t, path)
	if len(after) != 4 || after[2].Command != benchCommand || after[3].Figures["kept"].Median != 2 {
		t.Fatalf("the file is %+v", after)
	}
	wantQuotedNames(t, after[0])
	wantQuotedNames(t, after[1])
	if got := after[1].Figures["backfill.informd.client"]; got.Median != 500 || got.Unit != "us" {
		t.Errorf("CPU per object is %+v", got)
	}
	if got := after[1].Figures["backfill.rate"]; got.Median != 500 {
		t.Errorf("the rate is %+v", got)
	}
}

// wantQuotedNames compares the names of figures with those of docs/figures.json.
func wantQuotedNames(t *testing.T, m measurement) {
	t.Helper()
	if names, want := slices.Sorted(maps.Keys(m.Figures)), quotedNames(t, m.Command); !slices.Equal(names, want) {
		t.Errorf("figures of %s are %q, want those of docs/figures.json: %q", m.Command, names, want)
	}
}

func TestSpread(t *testing.T) {
	for name, tt := range map[string]struct {
		values []float64
		want   spread
	}{
		"one":                  {[]float64{3}, spread{3, 3, 3, 1}},
		"odd":                  {[]float64{9, 1, 4}, spread{4, 1, 9, 3}},
		"even":                 {[]float64{8, 2, 4, 6}, spread{5, 2, 8, 4}},
		"one was not measured": {[]float64{math.NaN(), 2}, spread{2, 2, 2, 1}},
	} {
		t.Run(name, func(t *testing.T) {
			if got := spreadOf(tt.values); got != tt.want {
				t.Errorf("%+v, want %+v", got, tt.want)
			}
		})
	}
	if s := spreadOf(nil); !math.IsNaN(s.Median) || s.Runs != 0 {
		t.Errorf("of nothing: %+v", s)
	}
}

func TestRatiosAreByRound(t *testing.T) {
	got := ratios([]float64{10, 30, 50, 70}, []float64{1, 2, math.NaN(), 0})
	if want := []float64{10, 15}; !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

func TestQuantile(t *testing.T) {
	var values []float64
	for i := range 100 {
		values = append(values, float64(i+1))
	}
	for share, want := range map[float64]float64{0: 1, 0.5: 50, 0.99: 99, 1: 100} {
		if got := quantile(values, share); got != want {
			t.Errorf("%g of 1 to 100: %g, want %g", share, got, want)
		}
	}
}

func TestReached(t *testing.T) {
	for name, tt := range map[string]struct {
		row  row
		want string
	}{
		"at most, kept":    {row{Required: 2, Values: []float64{1, 2, 9}}, "yes"},
		"at most, broken":  {row{Required: 2, Values: []float64{1, 2.1, 9}}, "no"},
		"at least, kept":   {row{Required: 25, More: true, Values: []float64{25}}, "yes"},
		"at least, broken": {row{Required: 25, More: true, Values: []float64{24.9}}, "no"},
		"no bound":         {row{Required: math.NaN(), Values: []float64{1}}, "-"},
		"was not measured": {row{Required: 2}, "not measured"},
		"broke off":        {row{Required: 2, Values: []float64{math.NaN()}}, "not measured"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := tt.row.reached(tt.row.Required); got != tt.want {
				t.Errorf("%s, want %s", got, tt.want)
			}
		})
	}
}

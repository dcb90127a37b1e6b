package daemon

import (
	"errors"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/informd/informd/internal/config"
	"github.com/informd/informd/pkg/dynwatch"
	"github.com/informd/informd/pkg/event"
)

// scrape returns the values of a collector by metric and labels.
func scrape(t *testing.T, c prometheus.Collector) map[string]float64 {
	t.Helper()
	r := prometheus.NewRegistry()
	r.MustRegister(c)
	return gather(t, r)
}

// gather returns the values of a registry by metric and labels.
func gather(t *testing.T, r prometheus.Gatherer) map[string]float64 {
	t.Helper()
	families, err := r.Gather()
	must(t, err)
	values := make(map[string]float64)
	for _, f := range families {
		for _, m := range f.GetMetric() {
			name := f.GetName()
			for _, l := range m.GetLabel() {
				name += " " + l.GetName() + "=" + l.GetValue()
			}
			values[name] = m.GetCounter().GetValue() + m.GetGauge().GetValue() // one of them is absent
		}
	}
	return values
}

// TestSeriesAreBounded: a wildcard over thousands of resources has a bounded number of
// series, no event is missing in their sum, and a target keeps its own while it exists.
func TestSeriesAreBounded(t *testing.T) {
	var all []dynwatch.TargetStatus
	for i := range 3 * maxTargetSeries {
		all = append(all, dynwatch.TargetStatus{
			Name: fmt.Sprintf("example.com/r%d", i), State: dynwatch.Live, Objects: 1,
			Events: map[event.Op]uint64{event.Added: 2}, Gaps: map[string]uint64{"expired": 3},
		})
	}
	c := newTargetCollector(func() []dynwatch.TargetStatus { return all })
	first := scrape(t, c)
	total := 0.0
	for _, i := range append(all, dynwatch.TargetStatus{Name: otherTargets}) {
		total += first["informd_target_events_total op=added target="+i.Name]
	}
	if want := 2.0 * float64(len(all)); total != want {
		t.Errorf("%g events in all, want %g", total, want)
	}
	if n := first["informd_target_objects target="+otherTargets]; n != 2*maxTargetSeries {
		t.Errorf("%g objects of other targets, want %d", n, 2*maxTargetSeries)
	}
	if n := first["informd_target_state state=live target="+otherTargets]; n != 2*maxTargetSeries {
		t.Errorf("%g other targets are live, want %d", n, 2*maxTargetSeries)
	}
	if n := first["informd_target_states state=live"]; n != 3*maxTargetSeries {
		t.Errorf("%g live targets, want %d", n, 3*maxTargetSeries)
	}
	if limit := (maxTargetSeries + 2) * 40; len(first) > limit {
		t.Errorf("%d series, want at most %d", len(first), limit)
	}
	all = append([]dynwatch.TargetStatus{{Name: "a new one"}}, all...)
	second := scrape(t, c)
	for name := range first {
		if _, ok := second[name]; !ok {
			t.Errorf("%s ended although its target exists", name)
		}
	}
	if len(second) != len(first) {
		t.Errorf("%d series, %d with one target less", len(second), len(first))
	}
}

// TestStates: a target has one series for each state, of which one is 1.
func TestStates(t *testing.T) {
	values := scrape(t, newTargetCollector(func() []dynwatch.TargetStatus {
		return []dynwatch.TargetStatus{{Name: "core/pods", State: dynwatch.Forbidden}}
	}))
	for _, state := range dynwatch.States() {
		got, ok := values["informd_target_state state="+string(state)+" target=core/pods"]
		if !ok || got != oneIf(state == dynwatch.Forbidden) {
			t.Errorf("%s is %g, %t", state, got, ok)
		}
	}
}

// TestCountsOfOtherTargetsNeverDecrease: targets that share series end, return with counts
// from 0, and remain without series of their own.
func TestCountsOfOtherTargetsNeverDecrease(t *testing.T) {
	began := time.Now()
	target := func(i int, gaps uint64, started time.Time) dynwatch.TargetStatus {
		return dynwatch.TargetStatus{Name: fmt.Sprintf("example.com/r%d", i), Started: started, Watches: 1, Lists: 1, Gaps: map[string]uint64{"expired": gaps}}
	}
	var all []dynwatch.TargetStatus
	for i := range maxTargetSeries + 3 {
		all = append(all, target(i, 5, began))
	}
	var shown []dynwatch.TargetStatus
	c := newTargetCollector(func() []dynwatch.TargetStatus { return shown })
	again := append(append([]dynwatch.TargetStatus{}, all...), target(maxTargetSeries+2, 1, began.Add(time.Second)))
	again = append(again[:maxTargetSeries+2], again[maxTargetSeries+3])
	for _, step := range []struct {
		name  string
		shown []dynwatch.TargetStatus
		want  float64
	}{
		{"all", all, 15},
		{"one of the others counts from 0 again", again, 16},
		{"two of the others end", all[:maxTargetSeries+1], 16},
		{"one with series of its own ends", all[1 : maxTargetSeries+1], 16},
		{"all end", nil, 16},
		{"there is still no target", nil, 16},
	} {
		shown = step.shown
		if got := scrape(t, c)["informd_target_gaps_total reason=expired target="+otherTargets]; got != step.want {
			t.Errorf("%s: %g gaps of other targets, want %g", step.name, got, step.want)
		}
	}
}

// TestReloadsCount: each attempt to reload counts with its result.
func TestReloadsCount(t *testing.T) {
	r := newReloads(nil, &config.Config{}, slog.New(slog.DiscardHandler))
	registry := prometheus.NewRegistry()
	must(t, r.register(registry))
	r.note(content{}, nil)
	r.note(content{}, errors.New("bad"))
	r.note(content{}, errors.New("worse"))
	values := gather(t, registry)
	want := map[string]float64{"success": 1, "failure": 2}
	for result, n := range want {
		if got := values["informd_config_reloads_total result="+result]; got != n {
			t.Errorf("%g reloads with result %s, want %g", got, result, n)
		}
	}
}

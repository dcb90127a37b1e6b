package deliver_test

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/informd/informd/internal/deliver"
	"github.com/informd/informd/pkg/journal"
	"github.com/informd/informd/pkg/sink"
)

func TestMetrics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := newJournal(t)
		s := inTurn(answer{3, sink.Permanent(errors.New("bad"))}, answer{1, errDown})
		list := events(0, 10)
		list[9].Namespace = "elsewhere"
		mustAppend(t, j, list)
		g := start(t, j, s, func(o *deliver.Options) {
			o.Route = route(t, true, deliver.Match{Namespaces: []string{"default"}})
		})
		synctest.Wait()
		<-time.After(time.Nanosecond)
		want := map[string]float64{
			`informd_sink_events_total result=dead_letter sink=out`: 1,
			`informd_sink_events_total result=delivered sink=out`:   4,
			`informd_sink_events_total result=filtered sink=out`:    1,
			`informd_sink_lag_events sink=out`:                      5,
			`informd_sink_lag_seconds sink=out`:                     1e-9,
			`informd_sink_panics_total sink=out`:                    0,
			`informd_sink_retries_total sink=out`:                   1,
			`informd_sink_state sink=out state=opening`:             0,
			`informd_sink_state sink=out state=retrying`:            1,
			`informd_sink_state sink=out state=running`:             0,
			`informd_sink_state sink=out state=stopped`:             0,
			`informd_sink_up sink=out`:                              0,
			`informd_sink_condition_errors_total sink=out`:          0,
			`informd_sink_trimmed_events_total sink=out`:            0,
			`informd_sink_write_seconds sink=out`:                   2, // its count
		}
		if diff := cmp.Diff(want, series(t, g.registry)); diff != "" {
			t.Errorf("metrics (-want +got):\n%s", diff)
		}
		g.drain(t, time.Second)
		if left := series(t, g.registry); len(left) != 0 {
			t.Errorf("series left after the sink has gone: %v", left)
		}
	})
}

// TestNameInUse: a second sink of the same name is refused, gives back its cursor, and leaves the first
// alone.
func TestNameInUse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j, s := newJournal(t), &fakeSink{}
		g := start(t, j, s, nil)
		synctest.Wait()
		other, err := j.Open("other", journal.FromNow)
		must(t, err)
		o := deliver.Options{Name: "out", Registerer: g.registry, Setup: setup(t, &fakeSink{})}
		if _, err := deliver.New(other, nil, o); err == nil || !strings.Contains(err.Error(), `"out"`) {
			t.Errorf("New = %v, want an error that names the sink", err)
		}
		if err := other.Close(); !errors.Is(err, journal.ErrClosed) {
			t.Errorf("the cursor is left open: %v", err)
		}
		mustAppend(t, j, events(0, 5))
		synctest.Wait()
		checkSet(t, s.ids(), numbers(0, 5))
		if got := series(t, g.registry)["informd_sink_events_total result=delivered sink=out"]; got != 5 {
			t.Errorf("the metrics of the first sink count %v events, want 5", got)
		}
		g.drain(t, time.Second)
	})
}

// series gathers all metrics: name and labels, and the value.
func series(t *testing.T, g prometheus.Gatherer) map[string]float64 {
	t.Helper()
	families, err := g.Gather()
	must(t, err)
	all := map[string]float64{}
	for _, family := range families {
		for _, m := range family.GetMetric() {
			name := family.GetName()
			for _, label := range m.GetLabel() {
				name += " " + label.GetName() + "=" + label.GetValue()
			}
			// At most one of them is set.
			all[name] = m.GetCounter().GetValue() + m.GetGauge().GetValue() + float64(m.GetHistogram().GetSampleCount())
		}
	}
	return all
}

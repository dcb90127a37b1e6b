package page_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/informd/informd/internal/page"
)

// sampled is what a page reads.
type sampled struct {
	Times           []int64
	EventsPerSecond []float64
	Sinks           []struct {
		Name       string
		LagSeconds []float64
	}
}

func samplesOf(t *testing.T, s *page.Samples) (got sampled, size int) {
	t.Helper()
	w := httptest.NewRecorder()
	s.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil))
	size = w.Body.Len()
	if err := json.NewDecoder(w.Body).Decode(&got); err != nil || w.Code != http.StatusOK {
		t.Fatalf("%d %v", w.Code, err)
	}
	return got, size
}

// TestSamples: the last hour stays, each sink has its own part of it, and one that leaves has none.
func TestSamples(t *testing.T) {
	s := new(page.Samples)
	if got, _ := samplesOf(t, s); len(got.Times) != 0 || len(got.Sinks) != 0 {
		t.Errorf("without a sample: %+v", got)
	}
	began := time.Unix(1_800_000_000, 0)
	const count = 300
	for i := range count {
		lags := []page.Lag{{Sink: "first", Seconds: float64(i)}}
		if i >= 290 {
			lags = append(lags, page.Lag{Sink: "later", Seconds: 0.26})
		}
		if i < 295 {
			lags = append(lags, page.Lag{Sink: "removed", Seconds: 1})
		}
		s.Add(began.Add(time.Duration(i)*page.SampleInterval), float64(i)/2, lags)
	}
	got, _ := samplesOf(t, s)
	hour := int(time.Hour / page.SampleInterval)
	if len(got.Times) != hour || len(got.EventsPerSecond) != hour || len(got.Sinks) != 2 {
		t.Fatalf("%d times, %d rates, %d sinks; want %d, %d, 2", len(got.Times), len(got.EventsPerSecond), len(got.Sinks), hour, hour)
	}
	for i := range hour {
		n := count - hour + i
		if got.Times[i] != began.Add(time.Duration(n)*page.SampleInterval).Unix() || got.EventsPerSecond[i] != float64(n)/2 || got.Sinks[0].LagSeconds[i] != float64(n) {
			t.Fatalf("sample %d is %d, %g, %g", i, got.Times[i], got.EventsPerSecond[i], got.Sinks[0].LagSeconds[i])
		}
	}
	if later := got.Sinks[1]; later.Name != "later" || !slices.Equal(later.LagSeconds, slices.Repeat([]float64{0.3}, 10)) {
		t.Errorf("a sink that came later: %+v", later)
	}
}

// TestSamplesAreBounded: neither time nor sinks make them grow, and pages share an answer.
func TestSamplesAreBounded(t *testing.T) {
	lags := make([]page.Lag, 200)
	for i := range lags {
		lags[i] = page.Lag{Sink: fmt.Sprint("sink-", strings.Repeat("n", 40), i), Seconds: 12_345.6}
	}
	heap := func() uint64 {
		runtime.GC()
		runtime.GC() // the pools of packages as well
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	before := heap()
	var all [20]page.Samples // what else is on the heap counts for little then
	for n := range all {
		for i := range 300 {
			all[n].Add(time.Unix(int64(i)*15, 0), 98_765.4, lags)
		}
		all[n].ServeHTTP(discard{}, nil)
	}
	used := (int64(heap()) - int64(before)) / int64(len(all))
	s := &all[0]
	got, size := samplesOf(t, s)
	t.Logf("%d sinks, %d bytes for a page, %d bytes of memory", len(got.Sinks), size, used)
	if len(got.Sinks) != 50 || size > 128<<10 || used > 192<<10 {
		t.Errorf("%d sinks, %d bytes for a page, %d bytes of memory", len(got.Sinks), size, used)
	}
	if n := testing.AllocsPerRun(10, func() { s.ServeHTTP(discard{}, nil) }); n > 10 {
		t.Errorf("an answer that is there costs %.0f allocations", n)
	}
	runtime.KeepAlive(&all)
}

// discard is a page that reads.
type discard struct{}

func (discard) Header() http.Header            { return http.Header{} }
func (discard) Write(text []byte) (int, error) { return len(text), nil }
func (discard) WriteHeader(int)                {}

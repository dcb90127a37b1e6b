package page_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/informd/informd/internal/page"
)

func TestFiles(t *testing.T) {
	for path, kind := range map[string]string{
		"/": "text/html", "/page/page.js": "javascript", "/page/diff.js": "javascript", "/page/dom.js": "javascript", "/page/charts.js": "javascript", "/page/page.css": "text/css", "/page/icon.svg": "image/svg+xml",
	} {
		w := httptest.NewRecorder()
		page.Files().ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, nil))
		if w.Code != http.StatusOK || !strings.Contains(w.Header().Get("Content-Type"), kind) {
			t.Errorf("GET %s = %d, %s; want %s", path, w.Code, w.Header().Get("Content-Type"), kind)
		}
		if policy := w.Header().Get("Content-Security-Policy"); !strings.Contains(policy, "default-src 'none'") || strings.Contains(policy, "unsafe") {
			t.Errorf("GET %s: the policy is %q", path, policy)
		}
	}
	for _, path := range []string{"/other", "/page/none.js", "/page/../page.go"} {
		w := httptest.NewRecorder()
		page.Files().ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, nil))
		if w.Code == http.StatusOK {
			t.Errorf("GET %s is served", path)
		}
	}
}

// TestDocumentHasNoInlineCode: the policy would refuse it.
func TestDocumentHasNoInlineCode(t *testing.T) {
	w := httptest.NewRecorder()
	page.Files().ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil))
	text := w.Body.String()
	for _, inline := range []string{"<style", " style=", " onclick", " onload", "<script>", "javascript:", "http://", "https://"} {
		if strings.Contains(text, inline) {
			t.Errorf("the document has %q", inline)
		}
	}
}

// TestPagesShareAState: many pages cost one rendering per interval.
func TestPagesShareAState(t *testing.T) {
	var rendered, dropped atomic.Int64
	ended := make(chan struct{})
	stream := &page.Stream{
		Render: func() []byte { rendered.Add(1); return []byte(`{"n":1}`) },
		Ended:  ended, Dropped: func() { dropped.Add(1) },
	}
	server := httptest.NewServer(stream)
	defer server.Close()
	const pages = 20
	began := time.Now()
	ends := make(chan error, pages)
	for range pages {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL, nil)
		if err != nil {
			t.Fatal(err)
		}
		answer, err := http.DefaultClient.Do(request) //nolint:bodyclose // by the reader below
		if err != nil {
			t.Fatal(err)
		}
		body := bufio.NewScanner(answer.Body)
		if !body.Scan() || body.Text() != `data: {"n":1}` {
			t.Fatalf("a page reads %q", body.Text())
		}
		go func() {
			for body.Scan() {
				continue // to the end
			}
			ends <- answer.Body.Close()
		}()
	}
	if n, most := rendered.Load(), 5+int64(time.Since(began)/time.Second); n > most {
		t.Errorf("%d pages that open together caused %d renderings, want at most %d", pages, n, most)
	}
	close(ended)
	for range pages {
		select {
		case err := <-ends:
			if err != nil {
				t.Error(err)
			}
		case <-time.After(time.Minute):
			t.Fatal("a page is open after the end of the server")
		}
	}
	if dropped.Load() != 0 {
		t.Errorf("%d pages were dropped", dropped.Load())
	}
}

// TestPageThatDoesNotReadIsDropped: its request ends, and nothing waits in memory for it.
func TestPageThatDoesNotReadIsDropped(t *testing.T) {
	dropped := make(chan struct{})
	large := []byte(`"` + strings.Repeat("x", 32<<20) + `"`)
	stream := &page.Stream{Render: func() []byte { return large }, Ended: make(chan struct{}), Dropped: func() { close(dropped) }}
	server := httptest.NewServer(stream)
	defer server.Close()
	conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", strings.TrimPrefix(server.URL, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	if _, err := conn.Write([]byte("GET / HTTP/1.1\r\nHost: x\r\n\r\n")); err != nil {
		t.Fatal(err)
	}
	select {
	case <-dropped:
	case <-time.After(time.Minute):
		t.Fatal("a page that does not read holds its request")
	}
}

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

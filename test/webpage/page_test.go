package webpage_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"github.com/informd/informd/internal/admin"
	"github.com/informd/informd/internal/deliver"
	"github.com/informd/informd/internal/display"
	"github.com/informd/informd/internal/page"
	"github.com/informd/informd/test/webpage"
)

const (
	manyTargets = 1_000
	manySinks   = 50
	patience    = 2 * time.Minute
)

// views are all of the page.
func views() []string { return []string{"overview", "tail", "history", "problems"} }

// served is a page with as many targets and sinks as it has to bear, without an informd.
type served struct {
	t    *testing.T
	url  string
	ctx  context.Context //nolint:containedctx // chromedp keeps the browser's page in it
	tick atomic.Int64    // makes each state another one
}

func serve(t *testing.T) *served {
	t.Helper()
	s := &served{t: t}
	samples := new(page.Samples)
	lags := make([]page.Lag, manySinks)
	for i := range 240 {
		for k := range lags {
			lags[k] = page.Lag{Sink: sinkName(k), Seconds: float64(i % (k + 2))}
		}
		samples.Add(time.Now().Add(time.Duration(i-240)*page.SampleInterval), float64(i), lags)
	}
	ended := make(chan struct{})
	mux := http.NewServeMux()
	mux.Handle("/", page.Files())
	mux.Handle("GET /page/status", &page.Stream{Render: s.state, Ended: ended, Dropped: func() { t.Error("the page does not read") }})
	mux.Handle("GET /page/samples", samples)
	mux.HandleFunc("GET /gaps", func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintf(w, `{"events":[%s,%s]}`,
			`{"id":"core/pods:12-20:gap","subject":"core/pods","time":"2026-11-20T09:00:00Z","fromrv":"12","torv":"20","reason":"namespace-deleted","recovered":"state"}`,
			`{"id":"bus:101-250:trimmed","subject":"*","time":"2026-11-20T10:00:00Z","fromrv":"0","torv":"0","reason":"trimmed","recovered":"state","trimmed":"42"}`)
	})
	mux.HandleFunc("GET /deadletters", func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintln(w, `{"sink":"bus","number":7,"letter":{"time":"2026-11-20T10:00:00Z","reason":"too large","event":{"resource":"pods","namespace":"shop","name":"web"}}}`)
	})
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	t.Cleanup(func() { close(ended) })
	s.url = server.URL

	options, err := webpage.Browser()
	if err != nil {
		t.Fatal(err)
	}
	allocator, cancelAllocator := chromedp.NewExecAllocator(t.Context(), options...)
	t.Cleanup(cancelAllocator)
	var cancel context.CancelFunc
	s.ctx, cancel = chromedp.NewContext(allocator)
	t.Cleanup(cancel)
	// The browser lives as long as the context of its first action.
	if err := chromedp.Do(s.ctx, chromedp.Navigate("about:blank")); err != nil {
		t.Fatal(err)
	}
	return s
}

func sinkName(i int) string { return fmt.Sprintf("sink-%02d", i) }

// state is a status whose numbers differ each time. Of the last target and sink of the config, something is wrong.
func (s *served) state() []byte {
	n := s.tick.Add(1)
	status := admin.Status{Version: "v1", Cluster: "test", TargetStates: map[string]int{"live": manyTargets}, Journal: admin.Journal{Type: "log", Capacity: 1 << 30}}
	for i := range manyTargets {
		status.Targets = append(status.Targets, admin.Target{Target: fmt.Sprintf("core/res%04d", i), State: "live", Events: uint64(n), LastProgress: time.Now()})
	}
	last := &status.Targets[manyTargets-1]
	last.State, last.Reason = "forbidden", "pods is forbidden"
	if n > 3 {
		status.Targets[500].State = "stale"
	}
	for i := range manySinks {
		status.Sinks = append(status.Sinks, deliver.Status{Name: sinkName(i), Type: "nats", State: deliver.Running, Delivered: uint64(n)})
	}
	broken := &status.Sinks[manySinks-1]
	broken.State, broken.LastError, broken.LastErrorAt = deliver.Retrying, "connection refused", time.Now()
	text, err := json.Marshal(struct {
		admin.Status
		Runbooks map[string]string `json:"runbooks"`
	}{status, map[string]string{
		"target": display.AlertRunbook("InformdTargetNotWatched"), "sink": display.AlertRunbook("InformdSinkDown"),
		"deadLetters": display.AlertRunbook("InformdDeadLetters"), "gap": display.GapRunbook(""),
	}})
	if err != nil {
		s.t.Error(err)
	}
	return text
}

func (s *served) do(actions ...chromedp.Action[chromedp.Void]) {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.ctx, patience)
	defer cancel()
	if err := chromedp.Do(ctx, actions...); err != nil {
		s.t.Fatal(err)
	}
}

func (s *served) eval(expression string) string {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.ctx, patience)
	defer cancel()
	text, err := chromedp.Run(ctx, chromedp.Evaluate[string]("String("+expression+")"))
	if err != nil {
		s.t.Fatalf("%s: %v", expression, err)
	}
	return text
}

func (s *served) eventually(expression string) {
	s.t.Helper()
	for began := time.Now(); s.eval("Boolean("+expression+")") != "true"; {
		if time.Since(began) > patience {
			s.t.Fatalf("never true: %s\nthe page has %.3000s", expression, s.eval("document.body.innerText"))
		}
	}
}

func (s *served) open(view string) {
	s.t.Helper()
	s.do(chromedp.Navigate(s.url + "/#" + view))
	s.eventually("document.getElementById('live').innerText == 'live' && !document.getElementById('" + view + "').hidden")
}

// TestManyTargetsAndSinks: the page shows them with what needs attention first, and a chart of each sink; a new
// state changes neither a selection nor what is open.
func TestManyTargetsAndSinks(t *testing.T) {
	s := serve(t)
	s.open("overview")
	s.eventually(fmt.Sprintf("document.querySelectorAll('#targets tr').length == %d && document.querySelectorAll('#sinks tr').length == %d", manyTargets, manySinks))
	s.eventually(fmt.Sprintf("document.querySelectorAll('.chart').length == %d", manySinks+1))
	for what, got := range map[string]string{
		"core/res0999": s.eval("document.querySelector('#targets td').innerText"),
		"sink-49":      s.eval("document.querySelector('#sinks td').innerText"),
		"Events per second|Lag of sink-49|Lag of sink-00|Lag of sink-01": s.eval("[...document.querySelectorAll('#charts b')].map((e) => e.innerText).join('|')"),
		"240": s.eval("document.querySelector('.chart .curve').getAttribute('d').split('L').length"),
	} {
		if got != what {
			t.Errorf("first is %q, want %q", got, what)
		}
	}
	if got := s.eval("document.querySelector('.chart figcaption').innerText"); !strings.Contains(got, "now 239, at most 239 at ") {
		t.Errorf("the caption of the chart is %q", got)
	}
	// A row is selected and one chart of the others open, while row 500 moves up past them.
	s.eval(`(() => {
		document.getElementById('more').open = true;
		window.row = document.querySelectorAll('#targets tr')[3];
		getSelection().selectAllChildren(window.row.firstElementChild);
		window.chosen = getSelection().toString();
	})()`)
	s.eventually("document.querySelectorAll('#targets td')[8].innerText == 'core/res0500'")
	if got := s.eval("window.row.isConnected && document.getElementById('more').open && window.chosen != '' && getSelection().toString() == window.chosen"); got != "true" {
		t.Errorf("after the next states, the selection is %q", s.eval("getSelection().toString()"))
	}
}

// TestGapsLeadToRunbooks: each gap has a row as in "informd gaps", with a link to its entry of the runbooks.
func TestGapsLeadToRunbooks(t *testing.T) {
	s := serve(t)
	s.open("problems")
	s.eventually("document.querySelectorAll('#gaps tr').length == 2 && document.querySelectorAll('#letters li').length == 1")
	rows := s.eval("[...document.querySelectorAll('#gaps tr')].map((r) => [...r.children].slice(1, 6).map((c) => c.innerText).join(' ')).join('|')")
	if want := "* bus trimmed 42 events state|core/pods - namespace-deleted (12,20] state"; rows != want {
		t.Errorf("the gaps are %q, want %q", rows, want)
	}
	links := s.eval("[...document.querySelectorAll('#problems a[target]')].filter((a) => !a.hidden).map((a) => a.href).join(' ')")
	want := strings.Join([]string{
		display.AlertRunbook("InformdTargetNotWatched"), display.AlertRunbook("InformdSinkDown"),
		display.GapRunbook("trimmed"), display.GapRunbook("namespace-deleted"), display.AlertRunbook("InformdDeadLetters"),
	}, " ")
	if links != want {
		t.Errorf("the links are %q, want %q", links, want)
	}
	// A gap that is open stays open when the list is read again.
	s.do(chromedp.Focus("#gaps summary"), chromedp.KeyEvent("\r"))
	s.eventually("document.querySelector('#gaps pre')")
	s.do(chromedp.Click("#problems-button"))
	s.eventually("document.getElementById('problems-state').innerText == ''")
	if s.eval("document.querySelector('#gaps details').open") != "true" {
		t.Error("the open gap is closed")
	}
}

// lowContrast lists the texts with a contrast below that of WCAG AA, 4.5, of all that shows.
const lowContrast = `(() => {
	const rgb = (c) => c.match(/[\d.]+/g).map(Number);
	const light = (c) => c.slice(0, 3).map((v) => (v /= 255) <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4)
		.reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
	const ground = (e) => { for (; e; e = e.parentElement) { const c = rgb(getComputedStyle(e).backgroundColor); if (c.length == 3 || c[3] == 1) return c; } return [255, 255, 255]; };
	const low = [];
	const check = (e, text, part) => {
		const [a, b] = [light(rgb(getComputedStyle(e, part).color)), light(ground(e))].sort((x, y) => y - x);
		if ((a + 0.05) / (b + 0.05) < 4.5) low.push(text.slice(0, 40) + " " + ((a + 0.05) / (b + 0.05)).toFixed(2));
	};
	for (const e of document.querySelectorAll("body *")) {
		if (!e.checkVisibility()) continue;
		if (e.placeholder) check(e, e.placeholder, "::placeholder");
		if ([...e.childNodes].some((n) => n.nodeType == 3 && n.data.trim())) check(e, e.innerText);
	}
	return [...new Set(low)].join("; ");
})()`

// TestEveryoneCanReadThePage: each view has enough contrast in both schemes, and is no wider than a small phone.
func TestEveryoneCanReadThePage(t *testing.T) {
	s := serve(t)
	for _, scheme := range []string{"light", "dark"} {
		for _, width := range []int64{1280, 320} {
			s.do(webpage.Scheme(scheme), chromedp.EmulateViewport(width, 800))
			for _, view := range views() {
				s.open(view)
				s.eventually("document.querySelector('#targets tr') && document.querySelector('#charts .chart, #overview[hidden]')")
				if got := s.eval(lowContrast); got != "" {
					t.Errorf("%s, %s: too little contrast: %s", view, scheme, got)
				}
				if got := s.eval("Math.max(0, document.documentElement.scrollWidth - innerWidth)"); got != "0" {
					t.Errorf("%s: at %d pixels the page is %s pixels too wide", view, width, got)
				}
			}
		}
	}
}

package admin

import (
	"bytes"
	"encoding/json"
	"net/http"
	"time"

	"github.com/informd/informd/internal/display"
	"github.com/informd/informd/internal/page"
)

// maxPages bounds the open pages of all listeners together: each is a goroutine and a
// connection.
const maxPages = 64

// newPage returns the handler of the page: its files, the stream of the status, and the samples of its charts.
func (s *Server) newPage() http.Handler {
	states := &page.Stream{Render: s.line, Ended: s.ending.Done(), Dropped: s.dropSlow}
	mux := http.NewServeMux()
	mux.Handle("/", page.Files())
	mux.Handle("GET /page/status", s.limited(maxPages, states))
	mux.Handle("GET /page/samples", s.limited(maxPages, &s.samples))
	return mux
}

// dropSlow notes a page or tail that informd drops, because it does not read.
func (s *Server) dropSlow() {
	s.refused.WithLabelValues("slow").Inc()
	s.options.Logger.Info("slow reader dropped", "next", "informd_admin_refused_total counts all")
}

// pageState is the status, and where the page links to.
type pageState struct {
	Status
	Runbooks pageRunbooks `json:"runbooks"`
}

type pageRunbooks struct {
	Target      string `json:"target"`
	Sink        string `json:"sink"`
	DeadLetters string `json:"deadLetters"`
	// Gap is what the address of each reason begins with.
	Gap string `json:"gap"`
}

// line is the state of the page as JSON on one line.
func (s *Server) line() []byte {
	state := pageState{s.now(), pageRunbooks{
		Target: display.AlertRunbook("InformdTargetNotWatched"), Sink: display.AlertRunbook("InformdSinkDown"),
		DeadLetters: display.AlertRunbook("InformdDeadLetters"), Gap: display.GapRunbook(""),
	}}
	var b bytes.Buffer
	if err := json.NewEncoder(display.JSONWriter(&b)).Encode(state); err != nil {
		s.options.Logger.Debug("status not available", "err", err)
		return []byte("null")
	}
	return bytes.TrimSpace(b.Bytes())
}

// sample adds a sample for the charts of the page now and then, until the server ends.
func (s *Server) sample() {
	defer close(s.sampled)
	tick := time.NewTicker(page.SampleInterval)
	defer tick.Stop()
	for {
		rate, lags := 0.0, []page.Lag(nil)
		for _, t := range s.options.Targets() {
			rate += t.EventsPerSecond
		}
		for _, k := range s.options.Sinks() {
			lags = append(lags, page.Lag{Sink: k.Name, Seconds: k.LagSeconds})
		}
		s.samples.Add(time.Now(), rate, lags)
		select {
		case <-tick.C:
		case <-s.ending.Done():
			return
		}
	}
}

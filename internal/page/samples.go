package page

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"time"
)

const (
	// SampleInterval is the time between two samples; maxSamples of them are an hour.
	SampleInterval = 15 * time.Second
	maxSamples     = 240
	// maxSampledSinks bounds the sinks that have samples: the first ones of the config.
	maxSampledSinks = 50
)

// Samples is what the page draws of the last hour. It holds at most 240 samples of at most 50
// sinks, 160 KiB with the answer to pages. Its methods are safe for concurrent use.
type Samples struct {
	mu     sync.Mutex
	kept   kept
	answer []byte // kept as JSON, nil if it has changed since
}

// kept has the samples, oldest first.
type kept struct {
	// Times are in seconds since 1970.
	Times           []int64   `json:"times"`
	EventsPerSecond []float32 `json:"eventsPerSecond"`
	Sinks           []Lags    `json:"sinks"`
}

// Lags are the samples of a sink.
type Lags struct {
	Name string `json:"name"`
	// Seconds has one number for each of the last samples: a sink that came later has fewer of them.
	Seconds []float32 `json:"lagSeconds"`
}

// Lag is how far a sink is behind.
type Lag struct {
	Sink    string
	Seconds float64
}

// Add adds a sample, and forgets those of sinks that have gone.
func (s *Samples) Add(at time.Time, eventsPerSecond float64, lags []Lag) {
	s.mu.Lock()
	defer s.mu.Unlock()
	k := &s.kept
	k.Times = push(k.Times, at.Unix())
	k.EventsPerSecond = push(k.EventsPerSecond, rounded(eventsPerSecond))
	sinks := make([]Lags, 0, min(len(lags), maxSampledSinks))
	for _, l := range lags[:cap(sinks)] {
		one := Lags{Name: l.Sink}
		if i := slices.IndexFunc(k.Sinks, func(had Lags) bool { return had.Name == l.Sink }); i >= 0 {
			one = k.Sinks[i]
		}
		one.Seconds = push(one.Seconds, rounded(l.Seconds))
		sinks = append(sinks, one)
	}
	k.Sinks, s.answer = sinks, nil
}

// push appends a sample in place of the oldest one.
func push[T any](list []T, sample T) []T {
	if len(list) < maxSamples {
		return append(list, sample)
	}
	copy(list, list[1:])
	list[maxSamples-1] = sample
	return list
}

// rounded leaves out what no chart shows, and what makes the answer long.
func rounded(x float64) float32 { return float32(int64(x*10+0.5)) / 10 }

// ServeHTTP sends the samples as JSON. Pages share the bytes.
func (s *Samples) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	answer, err := s.json()
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.Header().Set("Cache-Control", "no-store")
	_, _ = w.Write(answer) // the page may have gone
}

func (s *Samples) json() ([]byte, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.answer == nil {
		text, err := json.Marshal(s.kept)
		if err != nil {
			return nil, fmt.Errorf("make the samples JSON: %w", err)
		}
		s.answer = text
	}
	return s.answer, nil
}

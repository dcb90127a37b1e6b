package deliver

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/informd/informd/internal/display"
	"github.com/informd/informd/pkg/sink"
)

// State says what a sink is doing.
type State string

// The states of a sink.
const (
	// Opening is a sink that could not be opened yet; it is tried again and again.
	Opening State = "opening"
	// Running is a sink that takes what it is given.
	Running State = "running"
	// Retrying is a sink whose last write failed; nothing is lost meanwhile.
	Retrying State = "retrying"
	// Stopped is a sink whose Run has ended.
	Stopped State = "stopped"
)

// States returns all states of a sink.
func States() []State { return []State{Opening, Running, Retrying, Stopped} }

// Status describes one sink now; it is the sink's part of /status. The counts are since New.
type Status struct {
	Name  string `json:"name"`
	Type  string `json:"type"`
	State State  `json:"state"`
	// LagEvents and LagSeconds are the [journal.Lag] of the sink.
	LagEvents  uint64  `json:"lagEvents"`
	LagSeconds float64 `json:"lagSeconds"`
	// Delivered, Filtered and DeadLetters count events: those the destination
	// holds, those the route left out, those it refused for good. An operator may have removed
	// some of the dead letters.
	Delivered   uint64 `json:"delivered"`
	Filtered    uint64 `json:"filtered"`
	DeadLetters uint64 `json:"refused"`
	// Retries counts attempts that failed and were worth another.
	Retries uint64 `json:"retries"`
	// LastError is the last error of any kind, at most [display.MaxReason] bytes of it; ""
	// if there was none.
	LastError   string    `json:"lastError,omitempty"`
	LastErrorAt time.Time `json:"lastErrorAt,omitzero"`
	// LastSuccess is when the destination last took an event.
	LastSuccess time.Time `json:"lastSuccess,omitzero"`
	// Resnapshots are those of this sink alone that are not complete.
	Resnapshots []Pending `json:"resnapshots,omitempty"`
}

// quietTime is how long the log says nothing more about a sink that fails every
// other time.
const quietTime = time.Minute

// health is what a sink's lanes know together. All methods are safe for
// concurrent use.
type health struct {
	logger *slog.Logger

	mu      sync.Mutex
	status  Status // but for the lag
	panics  int
	failing int       // lanes that fail now
	since   time.Time // when the first of them began to
	warned  time.Time // when the log last said so

	unansweredAt time.Time // when the log last had a condition that failed
	unlogged     uint64    // how many of them it has not had since
}

func (h *health) snapshot() Status {
	h.mu.Lock()
	defer h.mu.Unlock()
	s := h.status
	if s.State == Running && h.failing > 0 {
		s.State = Retrying
	}
	return s
}

func (h *health) setState(s State) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.status.State = s
}

// failed records an error that is retried; first says that it is the first in a
// row for this lane. The log gets a line when the sink as a whole begins to fail.
func (h *health) failed(err error, first bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.setError(err)
	h.status.Retries++
	if !first {
		return
	}
	if h.failing++; h.failing > 1 {
		return
	}
	h.since = time.Now()
	if h.warned.IsZero() || h.since.Sub(h.warned) >= quietTime {
		h.warned = h.since
		h.logger.Warn("sink unavailable; retrying", append(said(err), "runbook", display.AlertRunbook("InformdSinkDown"))...)
	}
}

// recovered is the end of what failed(err, true) began.
func (h *health) recovered() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.failing--; h.failing == 0 && h.warned.Equal(h.since) {
		h.logger.Info("sink recovered", "pause", time.Since(h.since))
	}
}

// begin is called when the sink goes on with another setup.
func (h *health) begin(sinkType string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.status.Type, h.status.State, h.failing = sinkType, Opening, 0
}

func (h *health) delivered(n int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.status.Delivered += uint64(n)
	h.status.LastSuccess = time.Now()
}

func (h *health) filtered(n int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.status.Filtered += uint64(n)
}

// deadLetter records an event that was put aside. Only the first is an error in the log:
// the file has them all, and a counter their number.
func (h *health) deadLetter(err error, id, path string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.setError(err)
	const message = "event refused; stored as a dead letter"
	level := slog.LevelDebug
	if h.status.DeadLetters++; h.status.DeadLetters == 1 {
		level = slog.LevelError
	}
	h.logger.Log(context.Background(), level, message, append([]any{
		"id", id, "path", path, "next", "informd deadletters list", "runbook", display.AlertRunbook("InformdDeadLetters"),
	}, said(err)...)...)
}

// said are the attributes of an error, with the destination's answer: only the log has that.
func said(err error) []any {
	attrs := []any{"err", err}
	if answer := sink.Answer(err); answer != "" {
		attrs = append(attrs, "answer", answer)
	}
	return attrs
}

// unanswered records a condition that failed for an event. The log gets one line in
// a while: a condition that does not fit an object fails for each of its events.
func (h *health) unanswered(match int, err error, delivered bool, id string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	now := time.Now()
	if !h.unansweredAt.IsZero() && now.Sub(h.unansweredAt) < quietTime {
		h.unlogged++
		return
	}
	h.logger.Warn("condition could not be evaluated", "expression", fmt.Sprintf("match[%d].condition", match), "id", id,
		"delivered", delivered, "more_since_last", h.unlogged, "err", err)
	h.unansweredAt, h.unlogged = now, 0
}

// panicked logs the stack of the sink's first panic.
func (h *health) panicked(p *panicError) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.panics++; h.panics == 1 {
		h.logger.Error("sink panicked; retrying its events one by one", "err", p, "stack", string(p.stack),
			"runbook", display.AlertRunbook("InformdSinkPanic"))
	}
}

// setError is called with the lock held.
func (h *health) setError(err error) {
	h.status.LastError = display.Reason(err.Error())
	h.status.LastErrorAt = time.Now()
}

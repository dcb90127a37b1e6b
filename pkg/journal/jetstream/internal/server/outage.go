package server

import (
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/informd/informd/pkg/natsconn/refusal"
)

// Outage logs when a call begins to fail and when it works again, not the failures in
// between. Its methods may be called concurrently.
type Outage struct {
	logger *slog.Logger
	call   string
	report func(call string, err error) // optional

	mu    sync.Mutex
	since time.Time // zero while the call works
	full  bool
}

// NewOutage returns the outages of a call. Report takes the error of the call while it fails,
// and nil when it works again; it must not block, and can be nil.
func NewOutage(logger *slog.Logger, call string, report func(call string, err error)) *Outage {
	return &Outage{logger: logger, call: call, report: report}
}

// Begin notes a failure.
func (o *Outage) Begin(err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	full := refusal.Of(err) == refusal.Full
	if o.report != nil {
		o.report(o.call, err)
	}
	if !o.since.IsZero() && (o.full || !full) {
		return
	}
	if o.since.IsZero() {
		o.since = time.Now()
	}
	o.full = full
	if storage, ok := errors.AsType[*StorageError](err); ok {
		o.logger.Error("journal not opened; retrying", slog.Any("err", storage))
		return
	}
	if full {
		o.logger.Error("journal full; watches paused until space is free", slog.Any("err", err),
			slog.String("next", "raise journal.maxBytes and the stream's max_bytes, lower journal.historyPerObject, or free disk space on the NATS server"))
		return
	}
	o.logger.Warn("journal unavailable; retrying", slog.String("call", o.call), slog.Any("err", err))
}

// Over notes that the call works.
func (o *Outage) Over() {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.since.IsZero() {
		return
	}
	if o.report != nil {
		o.report(o.call, nil)
	}
	o.logger.Info("journal recovered", slog.String("call", o.call), slog.Duration("outage", time.Since(o.since).Round(time.Millisecond)))
	o.since, o.full = time.Time{}, false
}

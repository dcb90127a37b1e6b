package wal

import (
	"context"
	"errors"
	"fmt"
	"sync"
)

// ErrClosed is the error of every call of a closed log.
var ErrClosed = errors.New("journal is closed")

// Monitor is the lock of a log, with the error that ends the log and the channels of those who wait for a change.
//
// The lock guards what changes with each record: [segments], [Keys], [Tail], [Barrier] and [Writer]. Their exported
// methods take it, and the others are called with it held, unless they say otherwise.
type Monitor struct {
	failed chan struct{} // closed with err

	mu   sync.Mutex
	err  error // final
	news map[chan<- struct{}]struct{}
}

// Fail makes err the error of all further calls, unless there is one.
func (m *Monitor) Fail(err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	_ = m.end(err)
}

// end is Fail, and returns the error of further calls.
func (m *Monitor) end(err error) error {
	if m.err == nil {
		m.err = err
		close(m.failed)
		m.signal()
	}
	return m.err
}

// diskFailed is the final error after a failed call of the disk: what is on it is not known any more.
func diskFailed(err error) error { return fmt.Errorf("the journal's disk has failed: %w", err) }

// Failed is closed when the log takes no more calls; [Monitor.Failure] is the reason.
func (m *Monitor) Failed() <-chan struct{} { return m.failed }

// Failure is nil while the log is usable, and [ErrClosed] after Close.
func (m *Monitor) Failure() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.err
}

// Listen registers a channel of capacity 1, which gets a signal when a reader may get more.
func (m *Monitor) Listen(news chan<- struct{}) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.news[news] = struct{}{}
}

// Mute ends Listen.
func (m *Monitor) Mute(news chan<- struct{}) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.news, news)
}

func (m *Monitor) signal() {
	for news := range m.news {
		Signal(news)
	}
}

// waitFor takes the lock, and returns when done, which is called with it held, reports true: now, or after a change
// that [Monitor.Listen] signals.
func (m *Monitor) waitFor(ctx context.Context, done func() bool) error {
	news := make(chan struct{}, 1)
	m.Listen(news)
	defer m.Mute(news)
	for {
		m.mu.Lock()
		is, err := done(), m.err
		m.mu.Unlock()
		if err != nil || is {
			return err
		}
		select {
		case <-news:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// Signal leaves a signal in a channel of capacity 1, unless one is there.
func Signal(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

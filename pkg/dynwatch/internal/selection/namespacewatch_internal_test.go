package selection

import (
	"context"
	"errors"
	"log/slog"
	"testing"
)

// unlocked is a handler of logs that expects the lock of the Namespaces to be free.
type unlocked struct {
	slog.Handler
	of   *Namespaces
	t    *testing.T
	seen *int
}

func (u unlocked) Handle(_ context.Context, r slog.Record) error {
	*u.seen++
	if !u.of.mu.TryLock() {
		u.t.Errorf("the lock is held while %q is logged", r.Message)
		return nil
	}
	u.of.mu.Unlock()
	return nil
}

// TestLogsHoldUpNoReader expects that a log, which may block or read the state of targets, does not
// hold up readers of the Namespaces, and that users are woken.
func TestLogsHoldUpNoReader(t *testing.T) {
	changed := make(chan struct{}, 1)
	woken := func() {
		t.Helper()
		select {
		case <-changed:
		default:
			t.Error("the user is not woken")
		}
	}
	n, seen := &Namespaces{users: map[chan struct{}]Rule{changed: {}}}, 0
	n.logger = slog.New(unlocked{slog.Default().Handler(), n, t, &seen})
	n.Failed(errors.New("down"))
	woken()
	if err := n.trouble(); err == nil {
		t.Error("no error after a failure")
	}
	n.Opened()
	woken()
	if err := n.trouble(); err != nil || seen != 2 {
		t.Errorf("%d lines, error %v", seen, err)
	}
}

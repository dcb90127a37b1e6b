package selection

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"testing"

	"k8s.io/apimachinery/pkg/labels"

	"github.com/informd/informd/pkg/dynwatch/internal/metadatawatch"
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

// TestTurnsAfterARollback: the revisions at which namespaces came to match are forgotten with the
// history that they are of, whether the labels are other ones or not.
func TestTurnsAfterARollback(t *testing.T) {
	rule := Rule{Selector: "on=yes"}
	n := &Namespaces{logger: slog.New(slog.DiscardHandler), views: make(map[Rule]*view)}
	n.viewOf(rule)
	list := func(rv uint64, restored bool) {
		n.Listed([]metadatawatch.Object{
			{Name: "same", RV: rv - 1, Labels: labels.Set{"on": "yes"}},
			{Name: "other", RV: rv, Labels: labels.Set{"on": "yes", "rv": fmt.Sprint(rv)}},
		}, rv, restored)
	}
	list(100, false)
	n.known["same"].turned.after = 90 // as if a watch had brought it
	list(110, false)
	list(105, true)
	now, err := n.look(rule, nameSet{}, 0)
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]Turned{"same": {since: 104}, "other": {since: 105}}
	if !maps.Equal(now.Arriving, want) {
		t.Errorf("namespaces turned at %v, want %v", now.Arriving, want)
	}
}

package selection

import (
	"context"
	"errors"
	"log/slog"
	"testing"

	"k8s.io/apimachinery/pkg/labels"

	"github.com/informd/informd/pkg/dynwatch/internal/listwatch"
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
	n, seen := listed(), 0
	n.views[Rule{Selector: "none"}].users[&labelled{changed: changed}] = struct{}{}
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

// TestFlipsAfterARollback: the revisions at which namespaces matched are forgotten with the history
// that they are of.
func TestFlipsAfterARollback(t *testing.T) {
	n := newNamespaces()
	list := func(rv uint64, on string, restored bool) {
		n.Listed([]listwatch.MetadataObject{{Name: "team-a", RV: rv - 1, Labels: labels.Set{"on": on}}}, rv, restored)
	}
	list(100, "no", false)
	target := n.target(t, 100)
	list(110, "yes", false)
	look := func() Flip {
		now, err := target.Look()
		if err != nil {
			t.Fatal(err)
		}
		return now.Match["team-a"]
	}
	if got := look(); got != (Flip{109, 100}) {
		t.Errorf("flip %+v", got)
	}
	list(105, "yes", true)
	if got := look(); got != (Flip{At: 105}) {
		t.Errorf("flip %+v after a rollback", got)
	}
}

// TestOlderStateOfANamespace: etcd was restored, and nobody has noticed yet, as its revisions were raised. That a
// namespace matches again has a revision that no earlier event of it has.
func TestOlderStateOfANamespace(t *testing.T) {
	n := newNamespaces()
	list := func(at, rv uint64, on string) {
		n.Listed([]listwatch.MetadataObject{{Name: "team-a", RV: rv, Labels: labels.Set{"on": on}}}, at, false)
	}
	list(100, 90, "no")
	target := n.target(t, 100)
	list(1_000, 80, "yes")
	now, err := target.Look()
	if want := (Flip{1_000, 100}); err != nil || now.Match["team-a"] != want {
		t.Errorf("flip %+v, want %+v: %v", now.Match["team-a"], want, err)
	}
}

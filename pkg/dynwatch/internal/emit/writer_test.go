package emit_test

import (
	"bytes"
	"context"
	"log/slog"
	"slices"
	"strings"
	"testing"

	"github.com/informd/informd/internal/form"
	"github.com/informd/informd/pkg/dynwatch/internal/emit"
	"github.com/informd/informd/pkg/dynwatch/internal/frame"
	"github.com/informd/informd/pkg/dynwatch/internal/index"
	"github.com/informd/informd/pkg/event"
	"github.com/informd/informd/pkg/journal"
)

// must ends a test that an error leaves nothing to check in.
func must(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
}

// log keeps all events.
type log struct {
	journal.Stateless

	events []event.Event
}

func (l *log) Append(_ context.Context, events []event.Event) error {
	for _, e := range events {
		e.Data = bytes.Clone(e.Data)
		l.events = append(l.events, e)
	}
	return nil
}

func (l *log) Last(_ context.Context, of *event.Event) (event.Event, bool, error) {
	for _, e := range slices.Backward(l.events) {
		if e.Key() == of.Key() {
			return e, true, nil
		}
	}
	return event.Event{}, false, nil
}

type meter struct{}

func (meter) Stored(int)     {}
func (meter) Unpaired() bool { return false }

func newWriter() (*emit.Writer, *log) {
	l := &log{}
	w := emit.New(emit.Options{
		Append: l.Append, Log: l, Meter: meter{}, Logger: slog.New(slog.DiscardHandler),
		Cluster: "test", Target: "core/configmaps", Index: index.New(),
	})
	w.Reshape(emit.Content{}, nil)
	return w, l
}

// state is the object with a UID at a revision.
func state(uid string, rv uint64, value string) *frame.Object {
	return &frame.Object{
		Namespace: "shop", Name: "a", UID: uid, ResourceVersion: rv,
		Data: append(form.OpenData(nil), `{"data":{"k":"`+value+`"}}`...),
	}
}

// TestEndHasThePendingState: a deletion without a state has that of the event before, also if
// that event waits for a flush.
func TestEndHasThePendingState(t *testing.T) {
	for name, flushed := range map[string]bool{"never flushed": false, "an older state flushed": true} {
		t.Run(name, func(t *testing.T) {
			w, l := newWriter()
			write := func(op event.Op, o *frame.Object, e *index.Entry) {
				if _, err := w.Write(t.Context(), emit.Announcement{Op: op, Object: o, Entry: e, Replay: true}); err != nil {
					t.Fatal(err)
				}
			}
			write(event.Added, state("u", 1, "old"), nil)
			if flushed {
				must(t, w.Flush(t.Context()))
			}
			write(event.Modified, state("u", 2, "new"), w.Index.Get("shop", "a"))
			must(t, w.WriteEnd(t.Context(), event.Deleted, w.Index.Get("shop", "a"), nil, 3, true))
			must(t, w.Flush(t.Context()))
			if got := string(l.events[2].Object()); l.events[2].Op != event.Deleted || !strings.Contains(got, "new") {
				t.Errorf("%s with %s", l.events[2].Op, got)
			}
		})
	}
}

// TestSecretOfTheLog: an annotation that was a plain one when the log got it shows neither in
// oldObject nor in a deletion.
func TestSecretOfTheLog(t *testing.T) {
	w, l := newWriter()
	secret := func(rv uint64, value string) *frame.Object {
		o := state("u", rv, "")
		o.Data = append(form.OpenData(nil), `{"metadata":{"annotations":{"owner":"`+value+`"}}}`...)
		return o
	}
	write := func(op event.Op, o *frame.Object) {
		if _, err := w.Write(t.Context(), emit.Announcement{Op: op, Object: o, Entry: w.Index.Get("shop", "a")}); err != nil {
			t.Fatal(err)
		}
	}
	w.Reshape(emit.Content{ShapeOptions: frame.ShapeOptions{Secret: true}, Changes: emit.Changes{OldObject: true}}, frame.NewRedactor([]byte("key")))
	write(event.Added, secret(1, "canary"))
	write(event.Modified, secret(2, "canary"))
	must(t, w.WriteEnd(t.Context(), event.Deleted, w.Index.Get("shop", "a"), nil, 3, true))
	must(t, w.Flush(t.Context()))
	for what, got := range map[string][]byte{"oldObject": l.events[1].Member(event.MemberOld), "the deletion": l.events[2].Object()} {
		if !bytes.Contains(got, []byte("hmac-sha256:")) || bytes.Contains(got, []byte("canary")) {
			t.Errorf("%s is %s", what, got)
		}
	}
}

// TestEnteredContinuesThePendingChain: an object that has just left and enters again continues
// its chain, also if the event that says so waits for a flush.
func TestEnteredContinuesThePendingChain(t *testing.T) {
	w, l := newWriter()
	first := emit.Announcement{Op: event.Added, Object: state("u", 1, "x")}
	if _, err := w.Write(t.Context(), first); err != nil {
		t.Fatal(err)
	}
	must(t, w.WriteEnd(t.Context(), event.Left, w.Index.Get("shop", "a"), state("u", 2, "x"), 2, true))
	again := emit.Announcement{Op: event.Entered, Object: state("u", 3, "x"), Cause: 3}
	if _, err := w.Write(t.Context(), again); err != nil {
		t.Fatal(err)
	}
	must(t, w.Flush(t.Context()))
	if e := l.events[2]; e.Ordinal != 3 || e.PrevResourceVersion != 2 {
		t.Errorf("entered with ordinal %d after revision %d, want 3 after 2", e.Ordinal, e.PrevResourceVersion)
	}
}

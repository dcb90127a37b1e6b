package deliver_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/informd/informd/internal/deliver"
	"github.com/informd/informd/pkg/event"
)

// letter is a line of a dead-letter file, as a reader would decode it.
type letter struct {
	Time     string         `json:"time"`
	Sink     string         `json:"sink"`
	Reason   string         `json:"reason"`
	Attempts int            `json:"attempts"`
	Event    map[string]any `json:"event"`
	Target   string         `json:"target"`
	Key      string         `json:"key"`
	Size     int            `json:"size"`
	Raw      []byte         `json:"raw"`
}

// readLetters decodes all dead letters.
func readLetters(t *testing.T, d *deliver.DeadLetters) (letters []letter) {
	t.Helper()
	err := d.Each(t.Context(), func(k deliver.Kept) error {
		var l letter
		err := json.Unmarshal(k.JSON, &l)
		letters = append(letters, l)
		return err
	})
	must(t, err)
	return letters
}

func writeLetter(t *testing.T, d *deliver.DeadLetters, e event.Event, reason string) {
	t.Helper()
	must(t, d.Write(t.Context(), deliver.Letter{Event: &e, Reason: reason, Attempts: 3}))
}

func TestDeadLetters(t *testing.T) {
	d := deliver.NewDeadLetters("hook", emptyJournal(t).DeadLetters("hook"))
	list := events(0, 2)
	reason := "status 400: \"<bad>\"\n{}\xff"
	writeLetter(t, d, list[0], reason)
	writeLetter(t, d, list[1], "second")

	letters := readLetters(t, d)
	if len(letters) != 2 {
		t.Fatalf("%d letters, want 2", len(letters))
	}
	first := letters[0]
	if _, err := time.Parse(time.RFC3339, first.Time); err != nil {
		t.Errorf("time: %v", err)
	}
	var original map[string]any
	must(t, json.Unmarshal(list[0].AppendJSON(nil), &original))
	want := letter{Time: first.Time, Sink: "hook", Reason: strings.ToValidUTF8(reason, "\ufffd"), Attempts: 3, Event: original}
	if diff := cmp.Diff(want, first); diff != "" {
		t.Errorf("letter (-want +got):\n%s", diff)
	}
}

func TestDeadLettersOfSource(t *testing.T) {
	d := deliver.NewDeadLetters("source", emptyJournal(t).DeadLetters("source"))
	raw := bytes.Repeat([]byte{0xff, '\n'}, 50_000)
	for _, l := range []deliver.SourceLetter{
		{Target: "core/pods", Key: "core/pods/a/b", Reason: "cut JSON", Size: len(raw), Raw: raw},
		{Target: "core/secrets", Reason: "no metadata", Size: 10},
	} {
		must(t, d.WriteSource(t.Context(), l))
	}
	letters := readLetters(t, d)
	if len(letters) != 2 {
		t.Fatalf("%d letters, want 2", len(letters))
	}
	want := []letter{
		{Sink: "source", Time: letters[0].Time, Reason: "cut JSON", Target: "core/pods", Key: "core/pods/a/b", Size: 100_000, Raw: raw[:64<<10]},
		{Sink: "source", Time: letters[1].Time, Reason: "no metadata", Target: "core/secrets", Size: 10},
	}
	if diff := cmp.Diff(want, letters); diff != "" {
		t.Errorf("letters (-want +got):\n%s", diff)
	}
}

func TestDeadLettersConcurrently(t *testing.T) {
	d := deliver.NewDeadLetters("hook", emptyJournal(t).DeadLetters("hook"))
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			for _, e := range events(i*10, 10) {
				if err := d.Write(t.Context(), deliver.Letter{Event: &e}); err != nil {
					t.Errorf("Write: %v", err)
				}
			}
		})
	}
	wg.Wait()
	seen := map[any]bool{}
	for _, l := range readLetters(t, d) {
		seen[l.Event["id"]] = true
	}
	if len(seen) != 80 {
		t.Errorf("%d different letters, want 80", len(seen))
	}
}

func TestDeadLettersErrors(t *testing.T) {
	e := events(0, 1)[0]
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := deliver.NewDeadLetters("hook", emptyJournal(t).DeadLetters("hook")).Write(ctx, deliver.Letter{Event: &e}); !errors.Is(err, context.Canceled) {
		t.Errorf("Write = %v, want context.Canceled", err)
	}
}

// TestLargeDeadLetters: where there is no more space for the event, it is kept without its data.
func TestLargeDeadLetters(t *testing.T) {
	d := deliver.NewDeadLetters("one", emptyJournal(t, maxBytes(64<<20)).DeadLetters("one"))
	large := event.Event{ID: "uid:1", Op: event.Added, Name: "large", UID: "uid", Data: []byte(`{"object":{"data":"` + strings.Repeat("x", 1<<20) + `"}}`)}
	for range 5 {
		writeLetter(t, d, large, "no")
	}
	letters := readLetters(t, d)
	for i, l := range letters {
		whole := l.Event["data"] != nil
		if whole == strings.Contains(l.Reason, "without the event's data") || i == 0 && !whole || i == 4 && whole {
			t.Errorf("dead letter %d has an object: %t, reason: %s", i, whole, l.Reason)
		}
	}
	if len(letters) != 5 {
		t.Errorf("%d dead letters, want 5", len(letters))
	}
}

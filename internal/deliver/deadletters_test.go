package deliver_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/informd/informd/internal/deliver"
	"github.com/informd/informd/pkg/event"
	"github.com/informd/informd/pkg/journal"
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

func TestDeadLettersErrors(t *testing.T) {
	e := events(0, 1)[0]
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := deliver.NewDeadLetters("hook", emptyJournal(t).DeadLetters("hook")).Write(ctx, deliver.Letter{Event: &e}); !errors.Is(err, context.Canceled) {
		t.Errorf("Write = %v, want context.Canceled", err)
	}
}

// TestDeadLettersLeaveSpaceForEvents: a sink that refuses each update of a large object does not
// fill the log. Other resources continue, and no dead letter is missing: where there is no more space, it has no data.
func TestDeadLettersLeaveSpaceForEvents(t *testing.T) {
	const n = 100 // of 1.3 MB each that cannot be compressed to less than 1 MiB, in a log that keeps less of them
	var log logs
	j := emptyJournal(t, maxBytes(64<<20), func(c *journal.Config) { c.Logger = slog.New(slog.NewTextHandler(&log, nil)) })
	d := deliver.NewDeadLetters("hook", j.DeadLetters("hook"))
	random := make([]byte, 1<<20)
	_, _ = rand.NewChaCha8([32]byte{}).Read(random) // it has no errors
	large := events(0, 1)[0]
	large.Data = fmt.Appendf(nil, `{"object":{"data":{"key":%q}}}`, base64.StdEncoding.EncodeToString(random))
	for range n {
		large.ResourceVersion++
		writeLetter(t, d, large, "too large")
	}
	within, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	must(t, j.Append(within, events(1, 1)))

	listed, whole := 0, 0
	must(t, d.Each(t.Context(), func(k deliver.Kept) error {
		listed++
		switch {
		case k.Event == nil || k.Event.ResourceVersion != uint64(listed):
			t.Errorf("dead letter %d: %.300s", listed, k.JSON)
		case len(k.Event.Data) == len(large.Data):
			if whole++; whole != listed {
				t.Errorf("dead letter %d has data, an earlier one has none", listed)
			}
		case len(k.Event.Data) != 0 || !strings.Contains(string(k.JSON), "without the event's data"):
			t.Errorf("dead letter %d has %d bytes of data: %.300s", listed, len(k.Event.Data), k.JSON)
		}
		return nil
	}))
	if listed != n || whole == 0 || whole == n {
		t.Errorf("%d dead letters are listed, %d with data; want %d, the first with data", listed, whole, n)
	}
	if lines := log.count("large ones stored without data"); lines != 1 {
		t.Errorf("the limit is logged %d times, want once", lines)
	}
}

package deliver_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
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

// readLetters decodes a dead-letter file; no file is no letters.
func readLetters(t *testing.T, path string) (letters []letter) {
	t.Helper()
	content, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		t.Fatal(err)
	}
	for line := range bytes.Lines(content) {
		var l letter
		if err := json.Unmarshal(line, &l); err != nil {
			t.Fatalf("%v in %q", err, line)
		}
		letters = append(letters, l)
	}
	return letters
}

func writeLetter(t *testing.T, d *deliver.DeadLetters, e event.Event, reason string) {
	t.Helper()
	if err := d.Write(t.Context(), deliver.Letter{Event: &e, Reason: reason, Attempts: 3}); err != nil {
		t.Fatalf("Write: %v", err)
	}
}

func TestDeadLetters(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "state")
	d := deliver.NewDeadLetters("hook", deliver.NewFileBox(dir, "hook"))
	if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
		t.Fatalf("the directory is there before the first letter: %v", err)
	}
	list := events(0, 2)
	reason := "status 400: \"<bad>\"\n{}\xff"
	writeLetter(t, d, list[0], reason)
	writeLetter(t, d, list[1], "second")

	if want := filepath.Join(dir, "deadletters", "hook.ndjson"); d.Place() != want {
		t.Errorf("Path = %s, want %s", d.Place(), want)
	}
	for path, want := range map[string]os.FileMode{d.Place(): 0o600, filepath.Dir(d.Place()): 0o700 | os.ModeDir} {
		if info, err := os.Stat(path); err != nil || info.Mode() != want {
			t.Errorf("%s: mode %v (%v), want %v", path, info.Mode(), err, want)
		}
	}
	letters := readLetters(t, d.Place())
	if len(letters) != 2 {
		t.Fatalf("%d letters, want 2", len(letters))
	}
	first := letters[0]
	if _, err := time.Parse(time.RFC3339, first.Time); err != nil {
		t.Errorf("time: %v", err)
	}
	var original map[string]any
	if err := json.Unmarshal(list[0].AppendJSON(nil), &original); err != nil {
		t.Fatal(err)
	}
	want := letter{Time: first.Time, Sink: "hook", Reason: strings.ToValidUTF8(reason, "\ufffd"), Attempts: 3, Event: original}
	if diff := cmp.Diff(want, first); diff != "" {
		t.Errorf("letter (-want +got):\n%s", diff)
	}
}

func TestDeadLettersOfSource(t *testing.T) {
	d := deliver.NewDeadLetters("source", deliver.NewFileBox(t.TempDir(), "source"))
	raw := bytes.Repeat([]byte{0xff, '\n'}, 50_000)
	for _, l := range []deliver.SourceLetter{
		{Target: "core/pods", Key: "core/pods/a/b", Reason: "cut JSON", Size: len(raw), Raw: raw},
		{Target: "core/secrets", Reason: "no metadata", Size: 10},
	} {
		if err := d.WriteSource(t.Context(), l); err != nil {
			t.Fatalf("WriteSource: %v", err)
		}
	}
	letters := readLetters(t, d.Place())
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

// TestDeadLettersAfterTornLine: a write that was cut short by a crash or a full
// disk spoils its own line and no other.
func TestDeadLettersAfterTornLine(t *testing.T) {
	d := deliver.NewDeadLetters("hook", deliver.NewFileBox(t.TempDir(), "hook"))
	writeLetter(t, d, events(0, 1)[0], "whole")
	f, err := os.OpenFile(d.Place(), os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteString(`{"time":"2026`); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	writeLetter(t, d, events(1, 1)[0], "after")
	content, err := os.ReadFile(d.Place())
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSuffix(string(content), "\n"), "\n")
	if len(lines) != 3 || lines[1] != `{"time":"2026` || !strings.Contains(lines[2], `"after"`) {
		t.Errorf("lines = %q", lines)
	}
}

func TestDeadLettersMovedAway(t *testing.T) {
	d := deliver.NewDeadLetters("hook", deliver.NewFileBox(t.TempDir(), "hook"))
	writeLetter(t, d, events(0, 1)[0], "old")
	if err := os.Rename(d.Place(), d.Place()+".1"); err != nil {
		t.Fatal(err)
	}
	writeLetter(t, d, events(1, 1)[0], "new")
	if got := readLetters(t, d.Place()); len(got) != 1 || got[0].Reason != "new" {
		t.Errorf("letters after the file was moved: %+v", got)
	}
}

func TestDeadLettersStayInTheirDirectory(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"../../evil", "/etc/passwd", "..", "a/b", "nul\x00"} {
		d := deliver.NewDeadLetters(name, deliver.NewFileBox(dir, name))
		writeLetter(t, d, events(0, 1)[0], "x")
		if got := filepath.Dir(d.Place()); got != filepath.Join(dir, "deadletters") {
			t.Errorf("the letters of %q are in %s", name, got)
		}
		if got := readLetters(t, d.Place()); len(got) != 1 || got[0].Sink != name {
			t.Errorf("letters of %q: %+v", name, got)
		}
	}
}

func TestDeadLettersConcurrently(t *testing.T) {
	d := deliver.NewDeadLetters("hook", deliver.NewFileBox(t.TempDir(), "hook"))
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
	for _, l := range readLetters(t, d.Place()) {
		seen[l.Event["id"]] = true
	}
	if len(seen) != 80 {
		t.Errorf("%d different letters, want 80", len(seen))
	}
}

func TestDeadLettersErrors(t *testing.T) {
	blocked := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(blocked, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	e := events(0, 1)[0]
	err := deliver.NewDeadLetters("hook", deliver.NewFileBox(blocked, "hook")).Write(t.Context(), deliver.Letter{Event: &e})
	if err == nil || !strings.Contains(err.Error(), blocked) {
		t.Errorf("Write below a file = %v, want an error that names the path", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := deliver.NewDeadLetters("hook", deliver.NewFileBox(t.TempDir(), "hook")).Write(ctx, deliver.Letter{Event: &e}); !errors.Is(err, context.Canceled) {
		t.Errorf("Write = %v, want context.Canceled", err)
	}
}

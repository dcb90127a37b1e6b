package when_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/informd/informd/pkg/event"
)

// The examples of docs/filtering.md come to what it says.
func TestDocs(t *testing.T) {
	body, err := os.ReadFile("../../docs/filtering.md")
	if err != nil {
		t.Fatal(err)
	}
	block := func(language string) string {
		found := regexp.MustCompile("(?s)\n```" + language + "\n(.*?)\n```\n").FindStringSubmatch(string(body))
		if found == nil {
			t.Fatalf("no block of %s", language)
		}
		return found[1]
	}
	e := documented(t, block("json"))
	lines := strings.Split(block("cel"), "\n")
	if len(lines) < 15 {
		t.Errorf("%d examples", len(lines))
	}
	for _, line := range lines {
		text, want, ok := strings.Cut(line, " // ")
		if !ok {
			t.Errorf("no result: %s", line)
			continue
		}
		var decoded any
		holds, err := compile(t, text).Holds(e, &decoded)
		got := strconv.FormatBool(holds)
		if err != nil {
			_, reason, _ := strings.Cut(err.Error(), ": ")
			got = "error: " + reason
		}
		if got != want {
			t.Errorf("%s comes to %s", line, got)
		}
	}
}

// documented reads an event in the form in which sinks write it.
func documented(t *testing.T, text string) *event.Event {
	t.Helper()
	var line struct {
		ID, Op, Cluster, Group, Version, Resource, Kind, Namespace, Name, UID, ResourceVersion string

		Ordinal uint64
		Replay  bool
		Time    time.Time
		Data    json.RawMessage
	}
	if err := json.Unmarshal([]byte(text), &line); err != nil {
		t.Fatal(err)
	}
	rv, err := strconv.ParseUint(line.ResourceVersion, 10, 64)
	var data bytes.Buffer // an event has no white space
	if err := errors.Join(err, json.Compact(&data, line.Data)); err != nil {
		t.Fatal(err)
	}
	return &event.Event{
		ID: line.ID, Op: event.Op(line.Op), Cluster: line.Cluster, Group: line.Group, Version: line.Version, Resource: line.Resource, Kind: line.Kind,
		Namespace: line.Namespace, Name: line.Name, UID: line.UID, ResourceVersion: rv, Ordinal: line.Ordinal, Replay: line.Replay, Time: line.Time,
		Data: data.Bytes(),
	}
}

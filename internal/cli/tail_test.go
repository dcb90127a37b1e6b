package cli

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/informd/informd/pkg/event"
)

func modified(rv uint64, object string) []byte {
	e := event.Event{
		ID: "u:1", Op: event.Modified, Cluster: "c", Group: "apps", Version: "v1", Resource: "deployments", Kind: "Deployment", Namespace: "shop", Name: "web",
		UID: "u", ResourceVersion: rv, Data: []byte(`{"object":` + object + `}`),
	}
	return e.AppendJSON(nil)
}

func TestTextShowsChanges(t *testing.T) {
	var out bytes.Buffer
	show := newTailText(&out, false)
	for _, text := range [][]byte{
		modified(1, `{"spec":{"replicas":1,"image":"a\u001b[31m"}}`),
		modified(2, `{"spec":{"replicas":2,"image":"b\u202e"}}`),
	} {
		if err := show.Event(text); err != nil {
			t.Fatal(err)
		}
	}
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	if len(lines) != 4 || !strings.HasSuffix(lines[0], "modified deployments.apps/shop/web  1") || !strings.Contains(lines[2], "spec.image") ||
		strings.TrimSpace(lines[3]) != "spec.replicas - 1 + 2" {
		t.Errorf("the text is\n%s", out.String())
	}
	if strings.ContainsAny(out.String(), "\x1b\u202e") {
		t.Errorf("the text has characters that a terminal obeys: %q", out.String())
	}
	out.Reset()
	if err := newTailText(&out, true).Event(modified(1, `{}`)); err != nil || !strings.Contains(out.String(), "\x1b[33mmodified\x1b[0m") {
		t.Errorf("with colors: %q, %v", out.String(), err)
	}
}

func TestFollow(t *testing.T) {
	for name, test := range map[string]struct {
		body, shown, noted, err string
	}{
		"events":         {":\n\ndata: {\"n\":1}\n\n:\n\ndata: {\"n\":2}\n\n", `{"n":1}{"n":2}`, "", errEnded.Error()},
		"conditions":     {"event: failed\ndata: {\"events\":3}\n\ndata: 1\n\n", "1", "the condition failed for 3 events so far; they are not shown", errEnded.Error()},
		"a reason":       {"event: end\ndata: {\"reason\":\"too slow\"}\n\n", "", "", "informd ended the tail: too slow"},
		"an unknown one": {"event: other\ndata: {}\n\ndata: 1\n\n", "1", "", errEnded.Error()},
		"garbage":        {"event: end\ndata: {\n\n", "", "", "read the tail"},
		"cut":            {"data: {\"n\":1}", "", "", errEnded.Error()},
	} {
		t.Run(name, func(t *testing.T) {
			var shown, noted string
			err := followTail(strings.NewReader(test.body), func(text []byte) error { shown += string(text); return nil }, func(note string) { noted += note })
			if shown != test.shown || noted != test.noted || err == nil || !strings.Contains(err.Error(), test.err) {
				t.Errorf("shown %q, noted %q, %v", shown, noted, err)
			}
		})
	}
	full := errors.New("the disk is full")
	if err := followTail(strings.NewReader("data: 1\n\n"), func([]byte) error { return full }, nil); !errors.Is(err, full) {
		t.Errorf("an error of the output: %v", err)
	}
}

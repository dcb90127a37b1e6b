package schema_test

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/informd/informd/pkg/event"
	"github.com/informd/informd/pkg/sink/sinktest"
	"github.com/informd/informd/pkg/sink/stdout"
	"github.com/informd/informd/schema"
)

// lines validates events, one a line, and notes their attributes.
func lines(t *testing.T, s *jsonschema.Schema, text []byte, seen map[string]bool) {
	t.Helper()
	for line := range bytes.Lines(text) {
		one, ok := fromJSON(t, line).(map[string]any)
		if !ok {
			t.Fatalf("no object: %s", line)
		}
		if err := s.Validate(one); err != nil {
			t.Errorf("%v in:\n%s", err, line)
		}
		for name := range one {
			seen[name] = true
		}
	}
}

// TestGoldenEvents: the golden files of the format are events by the schema, and the
// schema names all the attributes that they have and no others.
func TestGoldenEvents(t *testing.T) {
	s, seen := compiled(t, schema.Event()), map[string]bool{}
	lines(t, s, read(t, "pkg/event/testdata/events.ndjson.golden"), seen)
	var batch []json.RawMessage
	must(t, json.Unmarshal(read(t, "pkg/event/testdata/batch.json.golden"), &batch))
	for _, one := range batch {
		lines(t, s, one, seen)
	}
	var known struct{ Properties map[string]any }
	must(t, json.Unmarshal(schema.Event(), &known))
	for name := range known.Properties {
		if !seen[name] {
			t.Errorf("no golden event has the attribute %s of the schema", name)
		}
	}
	for name := range seen {
		if known.Properties[name] == nil {
			t.Errorf("the schema does not name the attribute %s", name)
		}
	}
}

// TestStdoutLines: so are the lines of a stdout sink.
func TestStdoutLines(t *testing.T) {
	var out bytes.Buffer
	env := sinktest.Env(t)
	env.Stdout = &out
	sut, err := stdout.Driver().New().Open(t.Context(), env)
	must(t, err)
	if _, err := sut.Write(t.Context(), slices.Concat(sinktest.AllOps(), sinktest.Hostile(), sinktest.Events(50))); err != nil {
		t.Fatal(err)
	}
	must(t, sut.Close(t.Context()))
	lines(t, compiled(t, schema.Event()), out.Bytes(), map[string]bool{})
}

// withMember is the data of an event with something beside its object.
func withMember(name string, value any) map[string]any {
	return map[string]any{"object": map[string]any{}, "final": true, name: value}
}

// TestMembers: what an entry asks for beside the object is in the schema.
func TestMembers(t *testing.T) {
	s := compiled(t, schema.Event())
	link := map[string]any{"kind": "K", "apiVersion": "v1", "name": "n", "uid": "u"}
	last := map[string]any{"kind": "K", "apiVersion": "v1", "name": "n", "uid": "u", "complete": false}
	actor := map[string]any{"manager": "kubectl", "operation": "Apply", "subresource": "status", "time": "2026-11-20T10:00:00Z"}
	for line := range bytes.Lines(read(t, "pkg/event/testdata/events.ndjson.golden")) {
		one, _ := fromJSON(t, line).(map[string]any)
		data, _ := one["data"].(map[string]any)
		if data["object"] == nil {
			continue
		}
		data["ownerChain"] = []any{link, last}
		if one["op"] != "deleted" && one["op"] != "left" {
			data["fieldManager"] = actor
		}
		if err := s.Validate(one); err != nil {
			t.Errorf("%v in:\n%v", err, one)
		}
	}
}

// TestTooLarge: an event whose object was too large for the journal has no data.
func TestTooLarge(t *testing.T) {
	s := compiled(t, schema.Event())
	for _, op := range []event.Op{event.Snapshot, event.Added, event.Modified, event.Deleted} {
		e := sinktest.Events(1)[0]
		e.Op, e.Data = op, nil
		one, _ := fromJSON(t, e.AppendJSON(nil)).(map[string]any)
		if err := s.Validate(one); err != nil {
			t.Errorf("%s: %v in:\n%v", op, err, one)
		}
	}
}

// TestNoEvents: the schema refuses what lacks something or does not go together.
func TestNoEvents(t *testing.T) {
	s := compiled(t, schema.Event())
	golden := strings.Split(string(read(t, "pkg/event/testdata/events.ndjson.golden")), "\n")
	find := func(op string) map[string]any {
		i := slices.IndexFunc(golden, func(line string) bool { return strings.Contains(line, `"op":"`+op+`"`) })
		if i < 0 {
			t.Fatalf("no %s in the golden file", op)
		}
		one, _ := fromJSON(t, []byte(golden[i])).(map[string]any)
		return one
	}
	for name, test := range map[string]struct {
		op     string
		change func(e map[string]any)
	}{
		"no id":                   {"added", func(e map[string]any) { delete(e, "id") }},
		"no uid":                  {"modified", func(e map[string]any) { delete(e, "uid") }},
		"no object":               {"modified", func(e map[string]any) { e["data"] = map[string]any{} }},
		"data without its type":   {"snapshot", func(e map[string]any) { delete(e, "datacontenttype") }},
		"deleted without final":   {"deleted", func(e map[string]any) { e["data"] = map[string]any{} }},
		"another type":            {"deleted", func(e map[string]any) { e["type"] = "dev.informd.added" }},
		"unknown operation":       {"added", func(e map[string]any) { e["op"] = "patched" }},
		"a revision as a number":  {"added", func(e map[string]any) { e["resourceversion"] = json.Number("12") }},
		"a gap without its range": {"gap", func(e map[string]any) { delete(e, "fromrv") }},
		"a range without a gap":   {"synced", func(e map[string]any) { e["torv"] = "1" }},
		"synced about an object":  {"synced", func(e map[string]any) { e["uid"] = "u" }},
		"a state without a state": {"state", func(e map[string]any) { e["data"] = map[string]any{} }},
		"an actor without a time": {"added", func(e map[string]any) { e["data"] = withMember("fieldManager", map[string]any{"manager": "kubectl"}) }},
		"an owner without a uid": {"added", func(e map[string]any) {
			e["data"] = withMember("ownerChain", []any{map[string]any{"kind": "K", "apiVersion": "v1", "name": "n"}})
		}},
		"no owner":                 {"deleted", func(e map[string]any) { e["data"] = withMember("ownerChain", []any{}) }},
		"a time that is no moment": {"added", func(e map[string]any) { e["time"] = "2026-13-01T00:00:00.000000Z" }},
	} {
		t.Run(name, func(t *testing.T) {
			e := find(test.op)
			if err := s.Validate(e); err != nil {
				t.Fatalf("before the change: %v", err)
			}
			test.change(e)
			if s.Validate(e) == nil {
				t.Errorf("the schema takes %v", e)
			}
		})
	}
}

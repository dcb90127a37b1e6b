package cli

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/informd/informd/internal/form"
	"github.com/informd/informd/pkg/event"
)

func TestAt(t *testing.T) {
	start := time.Date(2026, 11, 20, 10, 0, 0, 0, time.UTC)
	var all []event.Event
	for i, op := range []event.Op{event.Added, event.Modified, event.Deleted, event.Added} {
		all = append(all, event.Event{Op: op, ResourceVersion: uint64(10 * (i + 1)), Time: start.Add(time.Duration(i) * time.Minute)})
	}
	for name, test := range map[string]struct {
		text string
		want uint64
		err  error
	}{
		"a revision":                  {"20", 20, nil},
		"between two revisions":       {"25", 20, nil},
		"a deletion":                  {"30", 30, nil},
		"later than all":              {"1000", 40, nil},
		"before the history":          {"9", 0, errBefore},
		"how long ago":                {"90s", 20, nil},
		"a time":                      {"2026-11-20T10:02:00Z", 30, nil},
		"a time before the history":   {"2026-11-20T09:59:59Z", 0, errBefore},
		"a time in another time zone": {"2026-11-20T11:01:00+01:00", 20, nil},
	} {
		t.Run(name, func(t *testing.T) {
			m, err := parseMoment(test.text, start.Add(3*time.Minute))
			must(t, err)
			e, err := stateAt(all, m)
			if !errors.Is(err, test.err) || err == nil && e.ResourceVersion != test.want {
				t.Errorf("%s: %+v, %v; want revision %d, %v", m, e, err, test.want, test.err)
			}
		})
	}
	early := objectMoment{Revision: 9}
	_, err := stateAt(all, early)
	if err == nil || !strings.Contains(err.Error(), "it was added at 2026-11-20T10:00:00Z, revision 10") {
		t.Errorf("before it was added: %v", err)
	}
	if _, err := stateAt(all[1:], early); err == nil || !strings.Contains(err.Error(), "journal.historyPerObject") {
		t.Errorf("before a history that was cut: %v", err)
	}
	if _, err := stateAt(nil, objectMoment{Revision: 1}); !errors.Is(err, errUnknown) {
		t.Errorf("without events: %v", err)
	}
	for object, hint := range map[string]bool{"pods/web-1": true, "pods/shop/web-1": false} {
		err := unknownObject(object)
		if !errors.Is(err, errUnknown) || strings.Contains(err.Error(), "pods/<namespace>/web-1") != hint {
			t.Errorf("%s: %v; how an object in a namespace is named: %v", object, err, hint)
		}
	}
	for _, text := range []string{"", "yesterday", "-5m", "2026-11-20", "0"} {
		if m, err := parseMoment(text, start); err == nil {
			if text != "0" || !m.Time.Equal(start) {
				t.Errorf("%q is %s", text, m)
			}
		}
	}
}

// TestGaps: a row says whom a gap concerns, and what is lost.
func TestGaps(t *testing.T) {
	at := time.Date(2026, 11, 20, 11, 0, 0, 0, time.FixedZone("CET", 3600))
	var out strings.Builder
	err := printGaps(&out, []event.Event{
		{Op: event.Gap, Time: at, Target: "core/pods", Gap: &event.GapInfo{From: 3, To: 9, Reason: "expired", Recovered: event.RecoveredPartial}},
		{Op: event.Gap, Time: at, ID: form.TrimmedID("bus", 5, 8), Target: event.AllTargets, Gap: &event.GapInfo{Reason: "trimmed", Trimmed: 4, Recovered: event.RecoveredState}},
		{Op: event.Gap, Time: at, ID: form.DestinationID("bus", at), Target: event.AllTargets, Gap: &event.GapInfo{Reason: "destination", Recovered: event.RecoveredState}},
	})
	want := []string{
		"TIME TARGET SINK REASON LOST RECOVERED",
		"2026-11-20T10:00:00Z core/pods - expired (3,9] partial",
		"2026-11-20T10:00:00Z * bus trimmed 4 events state",
		"2026-11-20T10:00:00Z * bus destination - state",
	}
	var got []string
	for line := range strings.Lines(out.String()) {
		got = append(got, strings.Join(strings.Fields(line), " "))
	}
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("%v, %q", err, got)
	}
}

func TestDiff(t *testing.T) {
	object := func(n string) []byte { return []byte(`{"object":{"data":{"k":"` + n + `"}}}`) }
	all := []event.Event{
		{Op: event.Added, ResourceVersion: 1, Data: object("1")},
		{Op: event.Modified, ResourceVersion: 2, Data: object("2\\u001b[31m")},
		{Op: event.Deleted, ResourceVersion: 3, Data: object("2\\u001b[31m")},
	}
	for name, test := range map[string]struct {
		all      []event.Event
		from, to string
		want     []string
	}{
		"two revisions": {all, "1", "2", []string{"--- revision 1", "+++ revision 2", `
-  k: "1"`, "\n+  k: "}},
		"the last change": {all[:2], "", "", []string{"--- revision 1", "+++ revision 2"}},
		"the first event": {all[:1], "", "", []string{"--- nothing", "+++ revision 1", `
+  k: "1"`}},
		"a deletion":               {all, "", "", []string{"--- revision 2", "deleted\n", "\n-  k: "}},
		"nothing but a deletion":   {all[2:], "", "", []string{"--- the last state", "deleted\n", "\n-  k: "}},
		"one revision with itself": {all, "1", "1", []string{"no difference"}},
	} {
		t.Run(name, func(t *testing.T) {
			before, after, err := statePair(test.all, test.from, test.to, time.Now())
			must(t, err)
			var out strings.Builder
			must(t, printDiff(&out, before, after, false))
			for _, want := range test.want {
				if !strings.Contains(out.String(), want) {
					t.Errorf("the diff lacks %q:\n%s", want, out.String())
				}
			}
			if strings.Contains(out.String(), "\x1b") {
				t.Errorf("the diff has what a terminal obeys: %q", out.String())
			}
		})
	}
}

func TestChanged(t *testing.T) {
	for name, test := range map[string]struct {
		before, after string
		want          []string
	}{
		"nothing":            {`{"a":1,"metadata":{"resourceVersion":"1"}}`, `{"metadata":{"resourceVersion":"2"},"a":1}`, []string{}},
		"a leaf":             {`{"spec":{"replicas":1}}`, `{"spec": {"replicas": 2}}`, []string{"spec.replicas"}},
		"a member":           {`{}`, `{"data":{"a":"1"}}`, []string{"data"}},
		"elements of a list": {`{"c":[{"name":"a","i":1},{"name":"b","i":1}]}`, `{"c":[{"name":"a","i":2},{"name":"b","i":2}]}`, []string{"c[].i"}},
		"no object":          {``, `{"a":1}`, []string{"(object)"}},
		"no JSON":            {`{"a":1}`, `{"a":1`, []string{"(object)"}},
	} {
		t.Run(name, func(t *testing.T) {
			got := changedPaths([]byte(test.before), []byte(test.after))
			if !slices.Equal(got, test.want) {
				t.Errorf("Changed = %q, want %q", got, test.want)
			}
		})
	}
	if got := changedPaths(nil, []byte(`{}`)); got != nil {
		t.Errorf("without a state before: %q", got)
	}
}

func TestManifest(t *testing.T) {
	object := `{"apiVersion":"v1","kind":"Secret","metadata":{"name":"a","namespace":"b","uid":"u","resourceVersion":"3","creationTimestamp":"2026-11-20T10:00:00Z",
		"annotations":{"x":"hmac-sha256:00"},"ownerReferences":[{"uid":"o"}],"finalizers":["example.com/f"],"labels":{"l":"1"}},
		"data":{"password":"hmac-sha256:13be33f30a10713a73df6c23c308e2a9"},"type":"Opaque","status":{"x":1}}`
	manifest, notes, err := manifestOf([]byte(object))
	must(t, err)
	text, err := json.Marshal(manifest)
	must(t, err)
	want := `{"apiVersion":"v1","data":{},"kind":"Secret","metadata":{"annotations":{},"finalizers":["example.com/f"],"labels":{"l":"1"},"name":"a","namespace":"b"},"type":"Opaque"}`
	if string(text) != want {
		t.Errorf("the manifest is\n%s, want\n%s", text, want)
	}
	const bare = "Only its metadata was stored"
	for _, say := range []string{"data.password", "metadata.annotations.x", "owner", "example.com/f"} {
		if !strings.Contains(strings.Join(notes, "\n"), say) {
			t.Errorf("the notes do not name %s: %q", say, notes)
		}
	}
	if _, more, err := manifestOf([]byte(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"}}`)); err != nil ||
		!strings.Contains(strings.Join(more, "\n"), bare) || strings.Contains(strings.Join(notes, "\n"), bare) {
		t.Errorf("of an object without content: notes %q, %v", more, err)
	}
	for _, object := range []string{"", "[]", "{}", `{"metadata":{"name":"a"}}`} {
		if _, _, err := manifestOf([]byte(object)); !errors.Is(err, errNoObject) {
			t.Errorf("of %q: %v", object, err)
		}
	}
}

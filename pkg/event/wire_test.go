package event_test

import (
	"bytes"
	"encoding/json"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/informd/informd/internal/form"
	"github.com/informd/informd/pkg/event"
)

func TestGoldenJSON(t *testing.T) {
	var lines []byte
	for _, e := range samples() {
		lines = append(e.AppendJSON(lines), '\n')
	}
	golden(t, "events.ndjson.golden", lines)
}

func TestGoldenBatch(t *testing.T) {
	got := event.AppendJSONBatch(nil, samples()[:2])
	golden(t, "batch.json.golden", append(got, '\n'))
	if got := string(event.AppendJSONBatch([]byte("x"), nil)); got != "x[]" {
		t.Errorf("empty batch = %q", got)
	}
}

func TestGoldenNATS(t *testing.T) {
	var b bytes.Buffer
	for _, e := range samples() {
		b.WriteString(e.NATSSubject("events.k8s") + "\n")
		e.AppendHeaders(func(name, value string) { b.WriteString("  " + name + ": " + value + "\n") })
		b.WriteString("  " + string(e.Data) + "\n")
	}
	golden(t, "nats.golden", b.Bytes())
}

// TestHostileStrings puts every hostile string in every place a cluster can
// fill, and reads it back from both wire forms.
func TestHostileStrings(t *testing.T) {
	for _, s := range hostile() {
		e := deployment(event.Modified)
		e.Namespace, e.Name, e.UID, e.Kind, e.Group = s+"n", s+"m", s+"u", s+"k", s
		e.Target, e.ID = s+"t", form.ObjectID(e.UID, 1, 0)
		checkWire(t, &e)
		e.Op, e.Gap = event.Gap, &event.GapInfo{From: 1, To: 2, Reason: s + "r", Recovered: event.RecoveredPartial}
		checkWire(t, &e)
	}
}

func FuzzWire(f *testing.F) {
	for _, s := range hostile() {
		f.Add(s, "name")
	}
	f.Fuzz(func(t *testing.T, namespace, name string) {
		e := deployment(event.Modified)
		e.Namespace, e.Name = namespace, name
		checkWire(t, &e)
	})
}

// checkWire decodes both forms and compares them with the event.
func checkWire(t *testing.T, e *event.Event) {
	t.Helper()
	line := e.AppendJSON(nil)
	if bytes.ContainsAny(line, "\n\r\x00\x7f") {
		t.Errorf("the line has a control character: %q", line)
	}
	var attributes map[string]any
	if err := json.Unmarshal(line, &attributes); err != nil {
		t.Fatalf("%v in %q", err, line)
	}
	headers := map[string]string{}
	e.AppendHeaders(func(name, value string) {
		if _, twice := headers[name]; twice {
			t.Errorf("header %s comes twice", name)
		}
		if strings.ContainsFunc(value, func(r rune) bool { return r <= ' ' || r > '~' || r == '"' }) {
			t.Errorf("header %s: %q has a character that must be encoded", name, value)
		}
		headers[name] = value
	})
	plain := map[string]string{}
	e.AppendAttributes(func(name, value string) { plain[name] = value })
	if plain["datacontenttype"] != headers["content-type"] {
		t.Errorf("content type %q, in the headers %q", plain["datacontenttype"], headers["content-type"])
	}
	for name, want := range map[string]string{
		"id": e.ID, "subject": e.Subject(), "group": e.Group, "kind": e.Kind,
		"namespace": e.Namespace, "name": e.Name, "uid": e.UID, "op": string(e.Op), "type": "dev.informd." + string(e.Op),
	} {
		if want == "" && name != "group" {
			continue
		}
		if plain[name] != want {
			t.Errorf("attribute %s is %q, want %q", name, plain[name], want)
		}
		if diff := cmp.Diff(asUTF8(want), attributes[name]); diff != "" {
			t.Errorf("JSON attribute %s (-want +got):\n%s", name, diff)
		}
		got, err := url.PathUnescape(headers["ce-"+name])
		if err != nil || got != want {
			t.Errorf("header ce-%s decodes to %q (%v), want %q", name, got, err, want)
		}
	}
}

// asUTF8 replaces each byte that is not UTF-8, as encoding/json does.
func asUTF8(s string) any { return string([]rune(s)) }

// TestCloudEventsRules holds what the specification 1.0.2 asks for. The official SDK reads events in test/sinks.
func TestCloudEventsRules(t *testing.T) {
	attributeName := regexp.MustCompile(`^[a-z0-9]{1,20}$`)
	for _, e := range samples() {
		t.Run(e.ID, func(t *testing.T) {
			var attributes map[string]any
			if err := json.Unmarshal(e.AppendJSON(nil), &attributes); err != nil {
				t.Fatal(err)
			}
			for _, required := range []string{"specversion", "id", "source", "type"} {
				if s, _ := attributes[required].(string); s == "" {
					t.Errorf("%s is %v, it must be a text that is not empty", required, attributes[required])
				}
			}
			if _, ok := attributes["data"]; ok != (attributes["datacontenttype"] != nil) {
				t.Error("data and datacontenttype must come together")
			}
			delete(attributes, "data")
			for name, value := range attributes {
				if !attributeName.MatchString(name) {
					t.Errorf("attribute name %q", name)
				}
				switch v := value.(type) {
				case string, bool:
				case float64:
					if v != float64(int32(v)) {
						t.Errorf("%s = %v is no CloudEvents integer", name, v)
					}
				default:
					t.Errorf("%s has the type %T, which no attribute may have", name, value)
				}
			}
		})
	}
}

func TestFormatTime(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 6000, time.FixedZone("", -7200))
	if got := form.Time(at); got != "2026-01-02T05:04:05.000006Z" {
		t.Errorf("Time = %s", got)
	}
}

func TestAppendJSONAllocations(t *testing.T) {
	for _, e := range samples() {
		buffer := make([]byte, 0, 4096)
		const most = 8 // one for each attribute that is put together
		if got := testing.AllocsPerRun(100, func() { e.AppendJSON(buffer) }); got > most {
			t.Errorf("%s: %.0f allocations, at most %d are allowed", e.Op, got, most)
		}
	}
}

func BenchmarkAppendJSON(b *testing.B) {
	e := deployment(event.Modified)
	e.Data = bytes.Repeat([]byte("x"), 8500)
	buffer := make([]byte, 0, 10_000)
	b.ReportAllocs()
	for b.Loop() {
		e.AppendJSON(buffer)
	}
}

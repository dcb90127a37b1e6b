package event_test

import (
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/informd/informd/pkg/event"
)

// headers is what a NATS message of the event has.
func headers(e *event.Event) map[string]string {
	h := map[string]string{}
	e.AppendHeaders(func(name, value string) { h[name] = value })
	return h
}

func parse(h map[string]string) (event.Event, error) {
	return event.ParseHeaders(func(name string) string { return h[name] })
}

// checkParse reads the event back from its headers.
func checkParse(t *testing.T, e event.Event) {
	t.Helper()
	got, err := parse(headers(&e))
	if err != nil {
		t.Errorf("%s %q: %v", e.Op, e.ID, err)
		return
	}
	want := e
	want.Data, want.Time = nil, e.Time.UTC().Truncate(time.Microsecond)
	if !e.Op.Control() {
		want.Target = event.GroupOrCore(e.Group) + "/" + e.Resource
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s %q (-want +got):\n%s", e.Op, e.ID, diff)
	}
}

func TestParseHeadersIsTheInverse(t *testing.T) {
	for _, e := range samples() {
		checkParse(t, e)
	}
	for range 2000 {
		checkParse(t, randomEvent())
	}
}

// randomEvent has random values of every kind in every field.
func randomEvent() event.Event {
	number := func() uint64 { return rand.Uint64() >> rand.IntN(64) * uint64(rand.IntN(2)) }
	text := func() string { all := hostile(); return all[rand.IntN(len(all))] }
	e := event.Event{
		ID: "i" + text(), Op: event.Ops()[rand.IntN(len(event.Ops()))],
		Time: time.Unix(rand.Int64N(4e9), rand.Int64N(1e9)), Replay: rand.IntN(2) == 0,
	}
	for _, field := range reflect.ValueOf(&e).Elem().Fields() {
		switch {
		case field.Kind() == reflect.String && field.IsZero():
			field.SetString(text())
		case field.Kind() == reflect.Uint64:
			field.SetUint(number())
		}
	}
	if e.Op == event.Gap {
		e.Gap = &event.GapInfo{From: number(), To: number(), Reason: text(), Recovered: event.Recovered(text()), Trimmed: number()}
	}
	return e
}

func TestParseHeadersRefuses(t *testing.T) {
	tests := map[string]struct{ name, value, want string }{
		"no id":       {"ce-id", "", "not those of an informd event"},
		"other type":  {"ce-type", "com.example.order", "not those of an informd event"},
		"no time":     {"ce-time", "", "header ce-time"},
		"no number":   {"ce-resourceversion", "x", "header ce-resourceversion"},
		"negative":    {"ce-ordinal", "-1", "header ce-ordinal"},
		"cut escape":  {"ce-name", "a%2", "header ce-name"},
		"bad escape":  {"ce-name", "%zz", "header ce-name"},
		"sign in hex": {"ce-name", "%+1", "header ce-name"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			e := deployment(event.Modified)
			h := headers(&e)
			h[test.name] = test.value
			if _, err := parse(h); err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("error = %v, want %q", err, test.want)
			}
		})
	}
	if _, err := parse(nil); err == nil {
		t.Error("no headers at all made an event")
	}
}

func BenchmarkParseHeaders(b *testing.B) {
	e := deployment(event.Modified)
	h := headers(&e)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := parse(h); err != nil {
			b.Fatal(err)
		}
	}
}

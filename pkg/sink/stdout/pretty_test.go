package stdout_test

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/informd/informd/internal/form"
	"github.com/informd/informd/pkg/event"
	"github.com/informd/informd/pkg/sink"
	"github.com/informd/informd/pkg/sink/sinktest"
	"github.com/informd/informd/pkg/sink/stdout"
)

var update = flag.Bool("update", false, "write the golden files")

// modified is an event with that object.
func modified(group, resource, name, object string) event.Event {
	return event.Event{
		ID: "u:1002", Op: event.Modified, Time: time.Date(2026, 11, 20, 10, 0, 1, 7e6, time.UTC), Cluster: "test",
		Group: group, Version: "v1", Resource: resource, Namespace: "shop", Name: name, UID: "u",
		ResourceVersion: 1002, PrevResourceVersion: 1001, Ordinal: 2,
		Data: form.CloseData(append(form.OpenData(nil), object...)),
	}
}

// screen is a bit of everything that a user may see.
func screen() []event.Event {
	restarting := `{"status":{"phase":"Running","containerStatuses":[{"ready":true},{"restartCount":3,"state":{"waiting":{"reason":"CrashLoopBackOff"}}}]}}`
	running := `{"metadata":{"deletionTimestamp":"2026-11-20T10:00:00Z"},"status":{"phase":"Running","containerStatuses":[{"ready":true,"restartCount":1}]}}`
	return slices.Concat(sinktest.AllOps(), []event.Event{
		modified("", "pods", "web-5d4f7c-x2x4z", `{"status":{"phase":"Pending"}}`),
		modified("", "pods", "web-5d4f7c-x2x4z", restarting),
		modified("", "pods", "web-5d4f7c-x2x4z", running),
		modified("apps", "deployments", "web", `{"spec":{"replicas":3},"status":{"readyReplicas":2}}`),
		modified("apps", "daemonsets", "agent", `{"status":{"desiredNumberScheduled":5,"numberReady":4}}`),
		modified("", "events", "web.17f", `{"reason":"BackOff","message":"Back-off restarting failed container"}`),
		modified("cert-manager.io", "certificates", "tls", `{"status":{"conditions":[{"type":"Issuing","status":"True"},{"type":"Ready","status":"True"}]}}`),
		modified("cert-manager.io", "certificaterequests", strings.Repeat("a-long-name-", 6),
			`{"status":{"conditions":[{"type":"Ready","status":"False","reason":"Pending"}]}}`),
		modified("", "configmaps", "settings", `{"data":{"a":"b"}}`),
		// Fields of other types than usual, and no object at all.
		modified("example.com", "odds", "types", `{"spec":{"replicas":"many"},"status":{"phase":"Odd","conditions":{},"readyReplicas":[]}}`),
		modified("example.com", "odds", "list", `[]`),
		modified("example.com", "odds", "status", `{"status":7,"reason":{}}`),
		modified("example.com", "odds", "ready", `{"status":{"conditions":[{"type":"Ready","status":"Unknown"}]}}`),
		modified("example.com", "odds", "phase", `{"status":{"phase":"`+strings.Repeat("long ", 40)+`\u001b[2J"}}`),
		{Op: event.Gap, Target: "core/pods@shop", Gap: &event.GapInfo{From: 5, To: 9, Reason: "rollback", Recovered: event.RecoveredState}},
		{Op: event.Gap, Target: event.AllTargets, Gap: &event.GapInfo{Reason: "trimmed", Recovered: event.RecoveredState, Trimmed: 7}},
		{Op: event.Gap, Target: "core/pods", Gap: &event.GapInfo{From: 5, To: 9, Reason: "expired", Recovered: event.RecoveredKnown}},
		{Op: event.State, Target: "core/pods", Data: form.StateData("live", "")},
		{Op: event.State, Target: "core/pods", Data: form.StateData("forbidden", "list\x1b[2J pods")},
	}, again(), changed(), sinktest.Hostile())
}

// changed are events that say what has changed.
func changed() []event.Event {
	few, many := modified("apps", "deployments", "web", `{"spec":{"replicas":3}}`), modified("", "configmaps", "settings", `{}`)
	few.Data = form.AddMembers(few.Data, form.Member{Name: event.MemberOld, Value: []byte(`{"spec":{"replicas":2}}`)},
		form.Member{Name: event.MemberChanged, Value: []byte(`["spec.replicas","metadata.annotations[\"\u001b[2J\"]"]`)})
	many.Data = form.AddMembers(many.Data, form.Member{Name: event.MemberChanged, Value: []byte(`["a","b","c","d","e","f","g","h","i","k"]`)})
	none := modified("", "configmaps", "settings", `{}`)
	none.Data = form.AddMembers(none.Data, form.Member{Name: event.MemberChanged, Value: []byte(`[]`)})
	return []event.Event{few, many, none}
}

// again is an object that is announced anew, and an event that is delivered again.
func again() []event.Event {
	anew, replayed := modified("", "pods", "web", `{}`), modified("", "pods", "web", `{}`)
	anew.Op, anew.PrevResourceVersion, anew.Replay = event.Snapshot, 1002, true
	anew.SetRun(3)
	replayed.SetRun(4)
	replayed.Redelivered = true
	return []event.Event{anew, replayed}
}

func TestPrettyGolden(t *testing.T) {
	for name, colour := range map[string]bool{"pretty.golden": false, "pretty-colour.golden": true} {
		t.Run(name, func(t *testing.T) {
			got := stdout.RenderPretty(colour, screen())
			if colour {
				got = []byte(strings.ReplaceAll(strconv.Quote(string(got)), `\n`, "\n")) // for people and diffs
			}
			path := filepath.Join("testdata", name)
			if *update {
				sinktest.Must(t, os.WriteFile(path, got, 0o644))
			}
			want, err := os.ReadFile(path)
			sinktest.Must(t, err)
			if diff := cmp.Diff(string(want), string(got)); diff != "" {
				t.Errorf("-want +got, -update if it is meant:\n%s", diff)
			}
		})
	}
}

// TestPrettyIsInert: whatever names say, there is one line per event and nothing
// that acts on a terminal.
func TestPrettyIsInert(t *testing.T) {
	events := screen()
	for _, hostile := range sinktest.Hostile() {
		quoted := strconv.QuoteToASCII(hostile.Name)
		if strings.Contains(quoted, `\x`) || strings.Contains(quoted, `\a`) {
			quoted = `"\u001b[31m\u0007"` // JSON knows neither
		}
		e := modified("", "pods", "p", fmt.Sprintf(`{"status":{"phase":%s}}`, quoted))
		e.Namespace, e.Resource, e.Group = hostile.Name, hostile.Name, hostile.Name
		gap := event.Event{Op: event.Gap, Target: hostile.Name, Gap: &event.GapInfo{Reason: hostile.Name, Recovered: event.Recovered(hostile.Name)}}
		events = append(events, e, gap)
	}
	text := stdout.RenderPretty(false, events)
	if got := bytes.Count(text, []byte("\n")); got != len(events) {
		t.Errorf("%d lines for %d events", got, len(events))
	}
	for _, r := range string(text) {
		if r != '\n' && !strconv.IsPrint(r) {
			t.Errorf("the output holds %q", r)
		}
	}
}

func TestPrettyThroughTheSink(t *testing.T) {
	out := &output{}
	s := sinkOn(t, stdout.Pretty, out)
	events := sinktest.AllOps()
	sinktest.MustWrite(t, s, events)
	text := out.String()
	local := events[0].Time.Local().Format("15:04:05.000 ")
	if !strings.HasPrefix(text, local) || strings.Contains(text, "\x1b") || strings.Count(text, "\n") != len(events) {
		t.Errorf("want %d lines in local time without colours, got:\n%s", len(events), text)
	}
}

func TestColourful(t *testing.T) {
	device, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0) // a character device, as terminals are
	sinktest.Must(t, err)
	file, err := os.Create(filepath.Join(t.TempDir(), "out"))
	sinktest.Must(t, err)
	t.Cleanup(func() { _ = device.Close(); _ = file.Close() })
	for name, c := range map[string]struct {
		out  *os.File
		env  map[string]string
		want bool
	}{
		"device":          {device, nil, true},
		"NO_COLOR":        {device, map[string]string{"NO_COLOR": "1"}, false},
		"NO_COLOR, empty": {device, map[string]string{"NO_COLOR": ""}, true},
		"dumb":            {device, map[string]string{"TERM": "dumb"}, false},
		"file":            {file, nil, false},
	} {
		t.Run(name, func(t *testing.T) {
			if got := stdout.Colourful(c.out, func(key string) string { return c.env[key] }); got != c.want {
				t.Errorf("Colourful = %t, want %t", got, c.want)
			}
		})
	}
	if stdout.Colourful(&bytes.Buffer{}, os.Getenv) {
		t.Error("a buffer is no terminal")
	}
}

// TestTerminalObeysNothing: characters that a terminal obeys are escaped in JSON for one,
// and are as they were for a pipe.
func TestTerminalObeysNothing(t *testing.T) {
	const hostile = "\u009b31m\u202e\u2066"
	device, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0) // a character device, as a terminal is
	sinktest.Must(t, err)
	defer device.Close() //nolint:errcheck // nothing is written
	e := sinktest.Events(1)[0]
	e.Name = "n" + hostile
	e.Data = form.CloseData(append(form.OpenData(nil), `{"metadata":{"name":"n`+hostile+`"}}`...))
	for _, format := range []sink.Format{sink.FormatCloudEvents, sink.FormatRaw} {
		c := &stdout.Config{Format: format}
		env := sinktest.Env(t)
		plain, err := c.Render(env, &e)
		sinktest.Must(t, err)
		env.Stdout = device
		shown, err := c.Render(env, &e)
		sinktest.Must(t, err)
		if !strings.Contains(string(plain.Body), hostile) {
			t.Errorf("%s: a pipe gets %s", format, plain.Body)
		}
		if strings.ContainsAny(string(shown.Body), "\u009b\u202e\u2066") || !bytes.Contains(shown.Body, []byte(`n\u009b31m\u202e\u2066"`)) {
			t.Errorf("%s: a terminal gets %q", format, shown.Body)
		}
	}
}

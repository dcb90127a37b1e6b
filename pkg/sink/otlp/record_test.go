package otlp_test

import (
	"bytes"
	"encoding/json"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	logs "go.opentelemetry.io/proto/otlp/logs/v1"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/testing/protocmp"

	"github.com/informd/informd/pkg/event"
	"github.com/informd/informd/pkg/sink"
	"github.com/informd/informd/pkg/sink/internal/compress"
	"github.com/informd/informd/pkg/sink/internal/endpoint/endpointtest"
	"github.com/informd/informd/pkg/sink/otlp"
	"github.com/informd/informd/pkg/sink/sinktest"
)

// render returns what a sink sends for an event.
func render(t *testing.T, c *otlp.Config, e event.Event) (sink.Rendered, record) {
	t.Helper()
	r, err := c.Render(sinktest.Env(t), &e)
	sinktest.Must(t, err)
	var data logs.LogsData
	if err := protojson.Unmarshal(r.Text, &data); err != nil {
		t.Fatalf("the text is not the message as JSON: %v\n%s", err, r.Text)
	}
	return r, flat(&data)[0]
}

func pod(op event.Op, data string) event.Event {
	return event.Event{
		ID: "u:5", Op: op, Cluster: "prod", Target: "core/pods", Version: "v1", Resource: "pods", Kind: "Pod",
		Namespace: "shop", Name: "web", UID: "u", ResourceVersion: 5, Ordinal: 2, Data: []byte(data),
	}
}

const plainHTTP = "http://127.0.0.1:4318"

// TestBody: every kind of JSON arrives as what it is, in its order.
func TestBody(t *testing.T) {
	deep := strings.Repeat(`{"a":`, 60) + `1` + strings.Repeat(`}`, 60)
	for name, tt := range map[string]struct{ data, want string }{
		"kinds":           {`{"object":{"s":"a","i":-7,"d":1.5,"t":true,"f":false,"n":null,"e":{},"l":[],"m":[1,"x",[2]]}}`, ""},
		"order":           {`{"object":{"z":1,"a":2,"m":3}}`, ""},
		"white space":     {"{\"object\": {\"a\" : [ 1 , \"b\" ] ,\t\"c\": { } } }", `{"object":{"a":[1,"b"],"c":{}}}`},
		"escapes":         {`{"object":{"\u0041\"":"\n\ud83d\ude80\\"}}`, `{"object":{"A\"":"\n🚀\\"}}`},
		"large number":    {`{"object":{"a":18446744073709551615}}`, `{"object":{"a":1.8446744073709552e+19}}`},
		"no double":       {`{"object":{"a":1e999}}`, `{"object":{"a":"1e999"}}`},
		"not UTF-8":       {"{\"object\":{\"a\xff\":\"\xfe\"}}", `{"object":{"a` + "\uFFFD" + `":"` + "\uFFFD" + `"}}`},
		"more than depth": {`{"object":` + deep + `}`, ""},
	} {
		t.Run(name, func(t *testing.T) {
			want := tt.want
			if want == "" {
				want = tt.data
			}
			_, r := render(t, config(t, plainHTTP, nil), pod(event.Modified, tt.data))
			got := string(jsonOf(r.GetBody()))
			if name == "more than depth" {
				// The text of what is deeper stands in place of it.
				if !strings.Contains(got, `"{\"a\":`) || strings.Count(got, "a") != 60 {
					t.Errorf("a deep object: %s", got)
				}
				return
			}
			if got != want {
				t.Errorf("the body is\n%s, want\n%s", got, want)
			}
		})
	}
}

// FuzzBody: no text ends the encoding or goes on forever, and of JSON nothing is lost.
func FuzzBody(f *testing.F) {
	for _, seed := range []string{`{"object":{"a":[1,"x",{}]}}`, `{"a":"b`, `{"a`, `[[`, `{"a":}`, `{"a" "b"}`, `{"":{"":""}}`, "{\"\\"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		e := pod(event.Modified, string(text))
		r, err := config(t, plainHTTP, nil).Render(sinktest.Env(t), &e)
		sinktest.Must(t, err)
		var data logs.LogsData
		sinktest.Must(t, protojson.Unmarshal(r.Text, &data))
		var want, got map[string]any
		if json.Unmarshal(text, &want) != nil || bytes.Count(text, []byte("{"))+bytes.Count(text, []byte("[")) > 20 || !utf8.Valid(text) {
			return
		}
		// A name that stands twice in an object has its last value, here and there.
		sinktest.Must(t, json.Unmarshal(jsonOf(flat(&data)[0].GetBody()), &got))
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("of %s (-want +got):\n%s", text, diff)
		}
	})
}

// TestAttributes: the names of the conventions, for the kinds that they know.
func TestAttributes(t *testing.T) {
	_, r := render(t, config(t, plainHTTP, nil), pod(event.Modified, `{"object":{}}`))
	want := map[string]string{
		"service.name": "informd", "k8s.cluster.name": "prod", "k8s.namespace.name": "shop",
		"event.name": "dev.informd.modified", "cloudevents.event_id": "u:5",
		"k8s.object.api_version": "v1", "k8s.resource.name": "pods", "k8s.object.kind": "Pod", "k8s.object.name": "web", "k8s.object.uid": "u",
		"k8s.object.resource_version": "5", "k8s.pod.name": "web", "k8s.pod.uid": "u",
		"informd.op": "modified", "informd.ordinal": "2", "informd.replay": "false",
	}
	if diff := cmp.Diff(want, r.attributes); diff != "" {
		t.Errorf("attributes (-want +got):\n%s", diff)
	}
	for name, tt := range map[string]struct {
		group, resource, kind string
		want                  string
	}{
		"deployment":  {"apps", "deployments", "Deployment", "k8s.deployment.name k8s.deployment.uid"},
		"hpa":         {"autoscaling", "horizontalpodautoscalers", "HorizontalPodAutoscaler", "k8s.hpa.name k8s.hpa.uid"},
		"namespace":   {"", "namespaces", "Namespace", "k8s.namespace.name"},
		"other group": {"example.com", "pods", "Pod", ""},
		"no name":     {"", "configmaps", "ConfigMap", ""},
	} {
		t.Run(name, func(t *testing.T) {
			e := pod(event.Added, `{"object":{}}`)
			e.Group, e.Resource, e.Kind, e.Namespace = tt.group, tt.resource, tt.kind, ""
			_, r := render(t, config(t, plainHTTP, nil), e)
			var got []string
			for _, a := range r.GetAttributes() {
				if key := a.GetKey(); strings.HasPrefix(key, "k8s.") && !strings.HasPrefix(key, "k8s.object.") && key != "k8s.resource.name" {
					got = append(got, key)
				}
			}
			if strings.Join(got, " ") != tt.want {
				t.Errorf("attributes %q, want %s", got, tt.want)
			}
		})
	}
}

// TestSeverity: what needs attention is a warning.
func TestSeverity(t *testing.T) {
	gap := pod(event.Gap, "")
	gap.Gap, gap.Data = &event.GapInfo{From: 1, To: 5, Reason: "expired", Recovered: event.RecoveredState}, nil
	for name, tt := range map[string]struct {
		e    event.Event
		want string
	}{
		"object":    {pod(event.Deleted, `{"final":false}`), "INFO"},
		"synced":    {pod(event.Synced, ""), "INFO"},
		"gap":       {gap, "WARN"},
		"live":      {pod(event.State, `{"state":"live"}`), "INFO"},
		"forbidden": {pod(event.State, `{"state":"forbidden","reason":"rbac"}`), "WARN"},
	} {
		t.Run(name, func(t *testing.T) {
			_, r := render(t, config(t, plainHTTP, nil), tt.e)
			number := map[string]int32{"INFO": 9, "WARN": 13}[tt.want]
			if r.GetSeverityText() != tt.want || int32(r.GetSeverityNumber()) != number {
				t.Errorf("severity %s %d, want %s", r.GetSeverityText(), r.GetSeverityNumber(), tt.want)
			}
		})
	}
}

// TestObjectsShape: the records of the k8sobjects receiver.
func TestObjectsShape(t *testing.T) {
	c := config(t, plainHTTP, func(c *otlp.Config) { c.Shape = otlp.ShapeObjects })
	identity := `{"type":"DELETED","object":{"apiVersion":"v1","kind":"Pod","metadata":{"name":"web","namespace":"shop","resourceVersion":"5","uid":"u"}}}`
	for name, tt := range map[string]struct {
		e    event.Event
		want string
	}{
		"snapshot": {pod(event.Snapshot, `{"object":{"a":1}}`), `{"type":"ADDED","object":{"a":1}}`},
		"added":    {pod(event.Added, `{"object":{"a":1}}`), `{"type":"ADDED","object":{"a":1}}`},
		"entered":  {pod(event.Entered, `{"object":{"a":1}}`), `{"type":"ADDED","object":{"a":1}}`},
		"modified": {pod(event.Modified, `{"patch":[],"object":{"a":1}}`), `{"type":"MODIFIED","object":{"a":1}}`},
		"deleted":  {pod(event.Deleted, `{"object":{"a":1},"final":true}`), `{"type":"DELETED","object":{"a":1}}`},
		"left":     {pod(event.Left, `{"object":{"a":1}}`), `{"type":"DELETED","object":{"a":1}}`},
		"identity": {pod(event.Deleted, `{"final":false}`), identity},
	} {
		t.Run(name, func(t *testing.T) {
			_, r := render(t, c, tt.e)
			if got := string(jsonOf(r.GetBody())); got != tt.want {
				t.Errorf("the body is %s, want %s", got, tt.want)
			}
			want := map[string]string{"k8s.namespace.name": "shop", "k8s.resource.name": "pods", "event.domain": "k8s", "event.name": "web"}
			if diff := cmp.Diff(want, r.attributes); diff != "" {
				t.Errorf("attributes (-want +got):\n%s", diff)
			}
			if r.GetTimeUnixNano() != 0 || r.GetSeverityNumber() != 0 || r.GetEventName() != "" || !strings.HasSuffix(r.scope, "/k8sobjectsreceiver") {
				t.Errorf("the record is %v in the scope %s", r.LogRecord, r.scope)
			}
		})
	}
	synced := pod(event.Synced, "")
	synced.Data = nil
	if _, r := render(t, c, synced); r.attributes["informd.op"] != "synced" || strings.HasSuffix(r.scope, "/k8sobjectsreceiver") {
		t.Errorf("a control event is %v in the scope %s", r.attributes, r.scope)
	}
}

// TestResources: events share a resource where no event overtakes another.
func TestResources(t *testing.T) {
	e := serve(t, nil)
	a, b, other := pod(event.Added, `{"object":{}}`), pod(event.Added, `{"object":{}}`), pod(event.Added, `{"object":{}}`)
	other.Namespace = "other"
	if n, _, err := write(t, open(t, e.URL, nil), []event.Event{a, b, other, a}); n != 4 {
		t.Fatal(err)
	}
	kept, _ := e.Requests()
	var got []int
	for _, group := range decode(t, kept[0]).GetResourceLogs() {
		got = append(got, len(group.GetScopeLogs()[0].GetLogRecords()))
	}
	if diff := cmp.Diff([]int{2, 1, 1}, got); diff != "" {
		t.Errorf("records per resource (-want +got):\n%s", diff)
	}
}

// TestRenderIsWhatIsSent: the body and every header but those that the transport adds.
func TestRenderIsWhatIsSent(t *testing.T) {
	for name, change := range map[string]func(c *otlp.Config){
		"http":       func(*otlp.Config) {},
		"grpc":       useGRPC,
		"k8sobjects": func(c *otlp.Config) { c.Shape = otlp.ShapeObjects },
		"gzip":       func(c *otlp.Config) { c.Protocol, c.Compression = otlp.GRPC, compress.Gzip },
		"headers": func(c *otlp.Config) {
			c.Headers = map[string]sink.Secret{"user-agent": sink.NewSecret("mine"), "X-Scope-OrgID": sink.NewSecret("canary")}
			c.Auth.Token = sink.NewSecret("canary")
		},
	} {
		t.Run(name, func(t *testing.T) {
			for _, one := range append(sinktest.AllOps(), sinktest.Hostile()...) {
				e := serve(t, nil)
				c := config(t, e.URL, change)
				if n, _, err := write(t, open(t, e.URL, change), []event.Event{one}); n != 1 {
					t.Fatal(err)
				}
				kept, _ := e.Requests()
				rendered, record := render(t, c, one)
				endpointtest.SameAsSent(t, kept[0], rendered, slices.Collect(maps.Keys(c.Headers))...)
				if diff := cmp.Diff(flat(decode(t, kept[0]))[0].LogRecord, record.LogRecord, protocmp.Transform()); diff != "" {
					t.Errorf("the record (-sent +rendered):\n%s", diff)
				}
			}
		})
	}
}

// TestRenderTells: what is secret does not show, and a credential that is not here takes nothing
// away but its header.
func TestRenderTells(t *testing.T) {
	c := config(t, "https://user:canary@example.com/canary?token=canary", func(c *otlp.Config) {
		c.Headers = map[string]sink.Secret{"X-Token": sink.NewSecret("canary")}
	})
	r, _ := render(t, c, sinktest.AllOps()[0])
	if r.To != "POST https://example.com/v1/logs" {
		t.Errorf("To = %q", r.To)
	}
	for _, h := range r.Headers {
		if strings.Contains(h.Value, "canary") {
			t.Errorf("header %s shows a secret: %s", h.Name, h.Value)
		}
	}
	c = config(t, "https://example.com", func(c *otlp.Config) { c.Auth.TokenFile = filepath.Join(t.TempDir(), "absent") })
	r, _ = render(t, c, sinktest.AllOps()[0])
	if !strings.Contains(strings.Join(r.Notes, " "), "absent") {
		t.Errorf("the notes do not name the file: %q", r.Notes)
	}
}

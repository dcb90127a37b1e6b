package nats

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/informd/informd/pkg/event"
	"github.com/informd/informd/pkg/sink/sinktest"
)

// TestFormats: in every format the message can be told from the headers by the sink
// itself, and holds the whole event, or the object and all that is not in it.
func TestFormats(t *testing.T) {
	for _, e := range append(sinktest.AllOps(), sinktest.Hostile()...) {
		binary := form{"k8s", Binary}.message(&e)
		structured := form{"k8s", CloudEvents}.message(&e)
		raw := form{"k8s", Raw}.message(&e)
		if diff := cmp.Diff(string(e.AppendJSON(nil)), string(structured.Data)); diff != "" {
			t.Errorf("%s: structured body (-want +got):\n%s", e.ID, diff)
		}
		if got := structured.Header["content-type"]; !slices.Equal(got, []string{event.ContentTypeJSON}) {
			t.Errorf("%s: structured content type %q", e.ID, got)
		}
		if _, ok := structured.Header["ce-specversion"]; ok {
			t.Errorf("%s: readers take the structured message for one in binary mode", e.ID)
		}
		if string(raw.Data) != string(e.Raw()) || string(binary.Data) != string(e.Data) {
			t.Errorf("%s: raw body %s, binary body %s", e.ID, raw.Data, binary.Data)
		}
		if diff := cmp.Diff(readLast(7, binary.Header), readLast(7, structured.Header), cmp.AllowUnexported(lastMessage{})); diff != "" {
			t.Errorf("%s: the sink knows its message by less in structured mode (-binary +structured):\n%s", e.ID, diff)
		}
		want := maps.Clone(binary.Header)
		if len(raw.Data) == 0 {
			delete(want, "content-type")
		}
		if diff := cmp.Diff(want, raw.Header); diff != "" {
			t.Errorf("%s: raw headers (-want +got):\n%s", e.ID, diff)
		}
	}
}

// BenchmarkMessage is what the message of one event costs, its 5 KB of data aside.
func BenchmarkMessage(b *testing.B) {
	e := event.Event{
		ID: "3f0f5a4e-1111-4222-8333-000000000001:1234567", Op: event.Modified, Time: time.Now(),
		Cluster: "prod-eu1", Target: "core/pods", Version: "v1", Resource: "pods", Kind: "Pod",
		Namespace: "shop", Name: "web-5d4f8c7b9-x2x4z", UID: "3f0f5a4e-1111-4222-8333-000000000001",
		ResourceVersion: 1234567, PrevResourceVersion: 1234500, Ordinal: 7,
		Data: []byte(`{"object":{"spec":"` + strings.Repeat("x", 5<<10) + `"}}`),
	}
	for _, format := range []Format{CloudEvents, Binary} {
		b.Run(string(format), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				form{"k8s", format}.message(&e)
			}
		})
	}
}

package nats

import (
	"maps"
	"slices"
	"testing"

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

package nats

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/informd/informd/pkg/sink"
	"github.com/informd/informd/pkg/sink/sinktest"
)

// TestFormats: in every format the sink itself knows a message from the headers. What readers get is in
// TestCloudEventsOverNATS of test/sinks.
func TestFormats(t *testing.T) {
	for _, e := range append(sinktest.AllOps(), sinktest.Hostile()...) {
		want := readLast(7, form{"k8s", "binary"}.message(&e).Header)
		for _, format := range []sink.Format{sink.FormatCloudEvents, sink.FormatRaw} {
			got := readLast(7, form{"k8s", format}.message(&e).Header)
			if diff := cmp.Diff(want, got, cmp.AllowUnexported(lastMessage{})); diff != "" {
				t.Errorf("%s: the sink knows its message by less (-binary +%s):\n%s", e.ID, format, diff)
			}
		}
	}
}

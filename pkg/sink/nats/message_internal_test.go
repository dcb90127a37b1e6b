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

func TestValidatePrefix(t *testing.T) {
	for prefix, ok := range map[string]bool{
		"events": true, "events.k8s": true, "a-b_c": true,
		"": false, ".": false, "a.": false, ".a": false, "a..b": false, "a.*": false, "a.>": false,
		"a b": false, "a\n": false, "ü": false, "\xff": false, "$JS.API": false, "a.$b": false, "a\x7f": false,
	} {
		if err := validatePrefix(prefix); (err == nil) != ok {
			t.Errorf("validatePrefix(%q) = %v, want ok = %v", prefix, err, ok)
		}
	}
}

package stdout_test

import (
	"bytes"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/informd/informd/pkg/event"
	"github.com/informd/informd/pkg/sink"
	"github.com/informd/informd/pkg/sink/sinktest"
	"github.com/informd/informd/pkg/sink/stdout"
)

// TestRenderIsWhatIsWritten: each event by a sink of its own, as columns grow.
func TestRenderIsWhatIsWritten(t *testing.T) {
	for _, format := range []sink.Format{sink.FormatCloudEvents, stdout.Pretty, sink.FormatRaw} {
		for _, e := range slices.Concat(sinktest.AllOps(), sinktest.Hostile()) {
			var out bytes.Buffer
			env, config := sinktest.Env(t), &stdout.Config{Format: format}
			env.Stdout = &out
			sinktest.MustWrite(t, sinkOn(t, format, &out), []event.Event{e})
			if want := string(e.AppendRaw(nil)) + "\n"; format == sink.FormatRaw && out.String() != want {
				t.Errorf("%s: raw is %q, want %q", e.ID, &out, want)
			}
			got, err := config.Render(env, &e)
			sinktest.Must(t, err)
			if diff := cmp.Diff(out.String(), string(got.Body)); diff != "" {
				t.Errorf("%s of %s (-written +rendered):\n%s", format, e.ID, diff)
			}
		}
	}
}

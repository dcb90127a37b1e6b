package file_test

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/informd/informd/pkg/sink/sinktest"
)

func TestRenderIsWhatIsWritten(t *testing.T) {
	c := config(newPath(t))
	events := slices.Concat(sinktest.AllOps(), sinktest.Hostile())
	var rendered []byte
	for i := range events {
		one, err := c.Render(sinktest.Env(t), &events[i])
		sinktest.Must(t, err)
		if one.To != c.Path {
			t.Errorf("To = %q, want %q", one.To, c.Path)
		}
		rendered = append(rendered, one.Body...)
	}
	s := openSink(t, c)
	sinktest.MustWrite(t, s, events)
	closeSink(t, s)
	if diff := cmp.Diff(read(t, c.Path), string(rendered)); diff != "" {
		t.Errorf("-written +rendered:\n%s", diff)
	}
}

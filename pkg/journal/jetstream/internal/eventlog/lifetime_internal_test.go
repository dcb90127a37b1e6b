package eventlog

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/informd/informd/pkg/journal/jetstream/internal/conflict"
)

// TestStopMessage: only a lost stream is reopened. If another informd writes, this one stops.
func TestStopMessage(t *testing.T) {
	for _, tt := range []struct {
		err            error
		want, unwanted string
	}{
		{conflict.ErrFenced, "another informd wrote to the journal; informd stops", "reopening"},
		{conflict.ErrLost, "journal stream changed; reopening the journal", "stops"},
		{conflict.ErrMissing, "journal stream changed; reopening the journal", "stops"},
	} {
		var out bytes.Buffer
		failed, fail := context.WithCancelCause(t.Context())
		l := &Lifetime{logger: slog.New(slog.NewTextHandler(&out, nil)), wake: func() {}, Failed: failed, Fail: fail}
		l.Stop(fmt.Errorf("%w: record mark", tt.err), 0)
		if got := out.String(); !strings.Contains(got, "level=WARN") || !strings.Contains(got, tt.want) || strings.Contains(got, tt.unwanted) {
			t.Errorf("the log after %v is %q, want %q", tt.err, got, tt.want)
		}
	}
}

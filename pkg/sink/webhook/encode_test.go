package webhook_test

import (
	"net/http"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/informd/informd/pkg/event"
	"github.com/informd/informd/pkg/sink/internal/compress"
	"github.com/informd/informd/pkg/sink/sinktest"
	"github.com/informd/informd/pkg/sink/webhook"
)

// TestRaw: the object is the body, and what is not in it is in the headers, for
// every operation; what has no object arrives as well.
func TestRaw(t *testing.T) {
	events := append(sinktest.AllOps(), sinktest.Hostile()...)
	state := sinktest.AllOps()[1]
	state.Op, state.Data = event.State, event.StateData("forbidden", "list: no")
	events = append(events, state)
	for _, method := range []compress.Method{compress.None, compress.Zstd} {
		t.Run(string(method), func(t *testing.T) {
			e := serve(t, nil)
			s := open(t, e.URL, func(c *webhook.Config) { c.Format, c.Compression = webhook.Raw, method })
			sinktest.MustWrite(t, s, events)
			kept, _ := e.Requests()
			if len(kept) != len(events) {
				t.Fatalf("%d requests, want %d", len(kept), len(events))
			}
			for i, r := range kept {
				if diff := cmp.Diff(string(events[i].Raw()), string(r.Plain)); diff != "" {
					t.Errorf("%s %s: body (-want +got):\n%s", events[i].Op, events[i].ID, diff)
				}
				wantAttributes(t, &events[i], r)
			}
		})
	}
}

// wantAttributes holds the headers to those of binary mode, except that nothing has
// no type.
func wantAttributes(t *testing.T, e *event.Event, r request) {
	t.Helper()
	want := http.Header{}
	e.AppendHeaders(want.Set)
	coding := ""
	if len(r.Body) == 0 {
		want.Del("Content-Type")
	} else {
		coding = r.Header.Get("Content-Encoding")
	}
	if got := r.Header.Get("Content-Encoding"); got != coding {
		t.Errorf("%s: no body has the coding %s", e.ID, got)
	}
	got := http.Header{}
	for name, values := range r.Header {
		if name == "Content-Type" || len(name) > 3 && name[:3] == "Ce-" {
			got[name] = values
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s: headers (-want +got):\n%s", e.ID, diff)
	}
}

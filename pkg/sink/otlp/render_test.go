package otlp_test

import (
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/testing/protocmp"

	"github.com/informd/informd/pkg/event"
	"github.com/informd/informd/pkg/sink"
	"github.com/informd/informd/pkg/sink/internal/compress"
	"github.com/informd/informd/pkg/sink/internal/endpoint/endpointtest"
	"github.com/informd/informd/pkg/sink/otlp"
	"github.com/informd/informd/pkg/sink/sinktest"
)

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

package webhook_test

import (
	"maps"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/informd/informd/internal/form"
	"github.com/informd/informd/pkg/event"
	"github.com/informd/informd/pkg/sink"
	"github.com/informd/informd/pkg/sink/internal/compress"
	"github.com/informd/informd/pkg/sink/internal/endpoint/endpointtest"
	"github.com/informd/informd/pkg/sink/sinktest"
	"github.com/informd/informd/pkg/sink/webhook"
)

// TestRaw: the object is the body, and what is not in it is in the headers, for
// every operation; what has no object arrives as well.
func TestRaw(t *testing.T) {
	events := append(sinktest.AllOps(), sinktest.Hostile()...)
	state := sinktest.AllOps()[1]
	state.Op, state.Data = event.State, form.StateData("forbidden", "list: no")
	events = append(events, state)
	for _, method := range []compress.Method{compress.None, compress.Zstd} {
		t.Run(string(method), func(t *testing.T) {
			e := serve(t, nil)
			s := open(t, e.URL, func(c *webhook.Config) { c.Format, c.Compression = sink.FormatRaw, method })
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

const signingSecret = "whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8="

// TestRenderIsWhatIsSent: the body and every header but those that the transport adds.
// What depends on the time is compared as well: it is rendered again until that was in
// the second in which it was sent.
func TestRenderIsWhatIsSent(t *testing.T) {
	secrets := filepath.Join(t.TempDir(), "secrets")
	writeFile(t, secrets, []byte(signingSecret+"\n"))
	for name, change := range map[string]func(c *webhook.Config){
		"single": nil,
		"signed": func(c *webhook.Config) { c.Signing.KeyFile = secrets },
		"batch":  func(c *webhook.Config) { c.Batch, c.Signing.KeyFile = 10, secrets },
		"own agent": func(c *webhook.Config) {
			c.Headers = map[string]sink.Secret{"user-agent": sink.NewSecret("mine"), "Authorization": sink.NewSecret("Bearer canary")}
		},
	} {
		t.Run(name, func(t *testing.T) {
			for _, e := range sinktest.AllOps() {
				sameAsSent(t, change, e)
			}
		})
	}
}

func sameAsSent(t *testing.T, change func(c *webhook.Config), e event.Event) {
	t.Helper()
	end := serve(t, nil)
	c := config(t, end.URL, change)
	deadline := time.Now().Add(10 * time.Second)
	for {
		before := rendered(t, c, &e)
		s := open(t, end.URL, change)
		sinktest.MustWrite(t, s, []event.Event{e})
		after := rendered(t, c, &e)
		if cmp.Diff(before, after) != "" && time.Now().Before(deadline) {
			continue // the second has changed
		}
		kept, _ := end.Requests()
		endpointtest.SameAsSent(t, kept[len(kept)-1], after, slices.Collect(maps.Keys(c.Headers))...)
		return
	}
}

func rendered(t *testing.T, c *webhook.Config, e *event.Event) sink.Rendered {
	t.Helper()
	r, err := c.Render(sinktest.Env(t), e)
	sinktest.Must(t, err)
	return r
}

// TestRenderTells: what is secret does not show, what varies is marked, and a file with
// secrets that is not here takes nothing away but the signature.
func TestRenderTells(t *testing.T) {
	e := sinktest.AllOps()[0]
	c := config(t, "https://user:canary@example.com/canary?token=canary", func(c *webhook.Config) {
		c.Headers = map[string]sink.Secret{"X-Token": sink.NewSecret("canary")}
		c.Signing.KeyFile = filepath.Join(t.TempDir(), "absent")
	})
	r := rendered(t, c, &e)
	if r.To != "POST https://example.com" {
		t.Errorf("To = %q", r.To)
	}
	varies := map[string]string{}
	for _, h := range r.Headers {
		if strings.Contains(h.Value, "canary") {
			t.Errorf("header %s shows a secret: %s", h.Name, h.Value)
		}
		varies[h.Name] = h.Varies
	}
	if varies["Webhook-Timestamp"] == "" || varies["Webhook-Id"] != "" {
		t.Errorf("what varies: %v", varies)
	}
	if _, signed := varies["Webhook-Signature"]; signed || len(r.Notes) != 1 || !strings.Contains(r.Notes[0], "signing.keyFile") {
		t.Errorf("without the secrets: signed %t, notes %q", signed, r.Notes)
	}
}

// TestRenderOwnIdempotencyKey: the header that lets the transport repeat a request is the user's, if there is one.
func TestRenderOwnIdempotencyKey(t *testing.T) {
	e := sinktest.AllOps()[0]
	c := config(t, "https://example.com", func(c *webhook.Config) {
		c.Headers = map[string]sink.Secret{"idempotency-key": sink.NewSecret("mine")}
	})
	if !slices.ContainsFunc(rendered(t, c, &e).Headers, func(h sink.Header) bool { return h.Name == "Idempotency-Key" }) {
		t.Error("Idempotency-Key of the config is not sent")
	}
}

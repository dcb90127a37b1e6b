package sinks_test

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"strings"
	"sync"
	"testing"

	natsbinding "github.com/cloudevents/sdk-go/protocol/nats_jetstream/v2"
	"github.com/cloudevents/sdk-go/v2/binding"
	cloudevents "github.com/cloudevents/sdk-go/v2/event"
	httpbinding "github.com/cloudevents/sdk-go/v2/protocol/http"
	"github.com/google/go-cmp/cmp"
	"github.com/klauspost/compress/zstd"
	webhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"github.com/informd/informd/pkg/event"
	"github.com/informd/informd/pkg/sink"
	"github.com/informd/informd/pkg/sink/file"
	"github.com/informd/informd/pkg/sink/nats"
	"github.com/informd/informd/pkg/sink/sinktest"
	"github.com/informd/informd/pkg/sink/webhook"
)

// samples are events of every operation, and names that try to break out.
func samples() []event.Event { return append(sinktest.AllOps(), sinktest.Hostile()...) }

// mode is what the SDK makes of a format.
type mode struct {
	// headers: the attributes were headers. The SDK leaves their values
	// percent-encoded, against section 3.1.3.2 of the HTTP binding.
	headers bool
	// data is what an event's data is.
	data func(e *event.Event) []byte
}

func structured() mode { return mode{false, func(e *event.Event) []byte { return e.Data }} }
func binary() mode     { return mode{true, func(e *event.Event) []byte { return e.Data }} }
func raw() mode        { return mode{true, (*event.Event).Raw} }

// wantEvents holds what the official SDK has read to the events that were sent.
func wantEvents(t *testing.T, sent []event.Event, got []cloudevents.Event, m mode) {
	t.Helper()
	if len(got) != len(sent) {
		t.Fatalf("the SDK has read %d events, want %d", len(got), len(sent))
	}
	for i := range got {
		if err := got[i].Validate(); err != nil {
			t.Errorf("event %s: %v", sent[i].ID, err)
		}
		if diff := cmp.Diff(attributesOf(t, &sent[i]), attributesRead(t, &got[i], m.headers)); diff != "" {
			t.Errorf("event %s: attributes (-want +got):\n%s", sent[i].ID, diff)
		}
		if diff := cmp.Diff(string(m.data(&sent[i])), string(got[i].Data())); diff != "" {
			t.Errorf("event %s: data (-want +got):\n%s", sent[i].ID, diff)
		}
	}
}

// attributesOf reads the attributes from the JSON form, the type of the data aside.
func attributesOf(t *testing.T, e *event.Event) map[string]string {
	t.Helper()
	record, err := sinktest.FromJSON(e.AppendJSON(nil))
	must(t, err)
	delete(record.Attributes, "datacontenttype")
	delete(record.Attributes, "time") // in another form
	for name, value := range record.Attributes {
		if value == "" {
			delete(record.Attributes, name) // the SDK does not keep what is empty
		}
	}
	return record.Attributes
}

func attributesRead(t *testing.T, e *cloudevents.Event, headers bool) map[string]string {
	t.Helper()
	all := map[string]string{
		"specversion": e.SpecVersion(), "id": e.ID(), "source": e.Source(), "type": e.Type(), "subject": e.Subject(),
	}
	for name, value := range e.Extensions() {
		if text := fmt.Sprint(value); text != "" {
			all[name] = text
		}
	}
	for name, value := range all {
		if !headers {
			break
		}
		var err error
		if all[name], err = url.PathUnescape(value); err != nil {
			t.Errorf("attribute %s: %v", name, err)
		}
	}
	return all
}

// receiver is an endpoint that reads requests with the official SDK.
type receiver struct {
	*httptest.Server
	mu       sync.Mutex
	secrets  []string
	encoding string // that bodies have to have
	events   []cloudevents.Event
	problems []error
}

func startReceiver(t *testing.T, secrets ...string) *receiver {
	t.Helper()
	r := &receiver{secrets: secrets}
	r.Server = httptest.NewServer(r)
	t.Cleanup(r.Close)
	return r
}

func (r *receiver) ServeHTTP(w http.ResponseWriter, request *http.Request) {
	r.mu.Lock()
	defer r.mu.Unlock()
	read, err := r.read(request)
	if err != nil {
		r.problems = append(r.problems, err)
		w.WriteHeader(http.StatusInternalServerError)
		return
	}
	r.events = append(r.events, read...)
}

func (r *receiver) read(request *http.Request) ([]cloudevents.Event, error) {
	body, err := io.ReadAll(request.Body)
	if err != nil {
		return nil, err
	}
	for _, secret := range r.secrets {
		hook, err := webhooks.NewWebhook(secret)
		if err != nil {
			return nil, err
		}
		if err := hook.Verify(body, request.Header); err != nil {
			return nil, err
		}
	}
	encoding := request.Header.Get("Content-Encoding")
	if len(body) > 0 && encoding != r.encoding {
		return nil, fmt.Errorf("the encoding is %q, want %q", encoding, r.encoding)
	}
	if body, err = unpack(encoding, body); err != nil {
		return nil, err
	}
	request.Body = io.NopCloser(bytes.NewReader(body))
	if httpbinding.NewMessageFromHttpRequest(request).ReadEncoding() == binding.EncodingBatch {
		return httpbinding.NewEventsFromHTTPRequest(request)
	}
	e, err := httpbinding.NewEventFromHTTPRequest(request)
	if err != nil {
		return nil, err
	}
	return []cloudevents.Event{*e}, nil
}

// unpack is what a server does before it gives a body to the SDK, which knows nothing of
// encodings.
func unpack(encoding string, body []byte) ([]byte, error) {
	switch encoding {
	case "":
		return body, nil
	case "gzip":
		unpacked, err := gzip.NewReader(bytes.NewReader(body))
		if err != nil {
			return nil, err
		}
		return io.ReadAll(unpacked)
	case "zstd":
		unpacked, err := zstd.NewReader(bytes.NewReader(body))
		if err != nil {
			return nil, err
		}
		defer unpacked.Close()
		return io.ReadAll(unpacked)
	default:
		return nil, fmt.Errorf("the encoding is %q", encoding)
	}
}

// TestCloudEventsOverHTTP: the official SDK reads every request, of every format, and
// the reference implementation of Standard Webhooks verifies it under both secrets of
// a rotation.
func TestCloudEventsOverHTTP(t *testing.T) {
	const first, second = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYX"
	for name, c := range map[string]struct {
		change func(c *webhook.Config)
		mode   mode
	}{
		"structured":       {func(*webhook.Config) {}, structured()},
		"batch":            {func(c *webhook.Config) { c.Batch = 7 }, structured()},
		"binary":           {func(c *webhook.Config) { c.Format = sink.FormatBinary }, binary()},
		"raw":              {func(c *webhook.Config) { c.Format = sink.FormatRaw }, raw()},
		"structured, gzip": {func(c *webhook.Config) { c.Compression = "gzip" }, structured()},
		"batch, gzip":      {func(c *webhook.Config) { c.Batch, c.Compression = 7, "gzip" }, structured()},
		"binary, gzip":     {func(c *webhook.Config) { c.Format, c.Compression = sink.FormatBinary, "gzip" }, binary()},
		"binary, zstd":     {func(c *webhook.Config) { c.Format, c.Compression = sink.FormatBinary, "zstd" }, binary()},
	} {
		t.Run(name, func(t *testing.T) {
			secrets := t.TempDir() + "/secret"
			writeFile(t, secrets, first+"\n"+second+"\n")
			r := startReceiver(t, first, second)
			s := sinktest.Open(t, sinktest.Options(t, webhook.Driver(), func(o *webhook.Config) {
				o.URL, o.Signing.KeyFile = sink.NewSecret(r.URL), secrets
				c.change(o)
				r.encoding = strings.TrimPrefix(string(o.Compression), "none")
			}))
			events := samples()
			n, err := s.Write(t.Context(), events)
			r.mu.Lock()
			defer r.mu.Unlock()
			if n != len(events) || err != nil {
				t.Fatalf("Write = %d, %v; the endpoint says %v", n, err, r.problems)
			}
			wantEvents(t, events, r.events, c.mode)
		})
	}
}

// TestCloudEventsOverNATS: the SDK reads every message, of every format, from a real
// server.
func TestCloudEventsOverNATS(t *testing.T) {
	for format, m := range map[sink.Format]mode{sink.FormatBinary: binary(), sink.FormatCloudEvents: structured(), sink.FormatRaw: raw()} {
		t.Run(string(format), func(t *testing.T) {
			server := startServer(t)
			in := subscribe(t, server.URL())
			events := samples()
			sinktest.Deliver(t, open(t, config(t, server.URL(), func(c *nats.Config) {
				useJetStream(c)
				c.Format = format
			})), events)
			var got []cloudevents.Event
			for _, message := range in.messages(t) {
				e, err := binding.ToEvent(t.Context(), natsbinding.NewMessage(message))
				if err != nil {
					t.Fatalf("message on %s: %v", message.Subject, err)
				}
				got = append(got, *e)
			}
			wantEvents(t, events, got, m)
		})
	}
}

// TestCloudEventsInFiles: every line is what the SDK takes for an event.
func TestCloudEventsInFiles(t *testing.T) {
	path := t.TempDir() + "/events.ndjson"
	s := open(t, sinktest.Options(t, file.Driver(), func(c *file.Config) { c.Path = path }))
	events := samples()
	sinktest.MustWrite(t, s, events)
	must(t, s.Close(t.Context()))
	text, err := os.ReadFile(path)
	must(t, err)
	var got []cloudevents.Event
	for line := range bytes.Lines(text) {
		var e cloudevents.Event
		if err := json.Unmarshal(line, &e); err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		got = append(got, e)
	}
	wantEvents(t, events, got, structured())
}

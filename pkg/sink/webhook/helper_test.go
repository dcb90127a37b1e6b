package webhook_test

import (
	"encoding/json"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/informd/informd/pkg/event"
	"github.com/informd/informd/pkg/sink"
	"github.com/informd/informd/pkg/sink/internal/endpoint/endpointtest"
	"github.com/informd/informd/pkg/sink/sinktest"
	"github.com/informd/informd/pkg/sink/webhook"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

type request = endpointtest.Request

// serve starts an endpoint that behaves so, or accepts everything.
func serve(t *testing.T, behave endpointtest.Behaviour) *endpointtest.Server {
	t.Helper()
	e := unstarted(t, behave)
	e.Start()
	return e
}

func unstarted(t *testing.T, behave endpointtest.Behaviour) *endpointtest.Server {
	t.Helper()
	if behave == nil {
		behave = func(int, http.ResponseWriter, request) bool { return true }
	}
	return endpointtest.Unstarted(t, behave)
}

// records are the events that the endpoint kept, in order.
func records(t *testing.T, e *endpointtest.Server) []sinktest.Record {
	t.Helper()
	kept, _ := e.Requests()
	var all []sinktest.Record
	for _, r := range kept {
		all = append(all, decode(t, r)...)
	}
	return all
}

func decode(t *testing.T, r request) []sinktest.Record {
	t.Helper()
	if r.Header.Get("Ce-Id") != "" {
		record, err := sinktest.FromHeaders(r.Header, r.Plain)
		sinktest.Must(t, err)
		return []sinktest.Record{record}
	}
	var parts []json.RawMessage
	switch contentType := r.Header.Get("Content-Type"); contentType {
	case event.ContentTypeJSON:
		parts = append(parts, r.Plain)
	case event.ContentTypeBatch:
		sinktest.Must(t, json.Unmarshal(r.Plain, &parts))
	default:
		t.Fatalf("content type %q", contentType)
	}
	var all []sinktest.Record
	for _, part := range parts {
		record, err := sinktest.FromJSON(part)
		sinktest.Must(t, err)
		all = append(all, record)
	}
	return all
}

func config(t *testing.T, url string, change func(c *webhook.Config)) *webhook.Config {
	t.Helper()
	return sinktest.Options(t, webhook.Driver(), func(c *webhook.Config) { c.URL = sink.NewSecret(url) }, change)
}

func open(t *testing.T, url string, change func(c *webhook.Config)) sink.Sink {
	t.Helper()
	return sinktest.Open(t, config(t, url, change))
}

// short makes attempts end soon.
func short(c *webhook.Config) { c.Timeout = 150 * time.Millisecond }

func writeFile(t *testing.T, file string, content []byte) {
	t.Helper()
	sinktest.Must(t, os.WriteFile(file, content, 0o600))
}

// wantError holds err to be of a kind, and to say the words.
func wantError(t *testing.T, err error, permanent bool, words ...string) {
	t.Helper()
	if err == nil {
		t.Fatal("Write took everything, want an error")
	}
	if sink.IsPermanent(err) != permanent {
		t.Errorf("permanent: %t, want %t: %v", !permanent, permanent, err)
	}
	for _, word := range words {
		if !strings.Contains(err.Error(), word) {
			t.Errorf("the error %q does not say %q", err, word)
		}
	}
}

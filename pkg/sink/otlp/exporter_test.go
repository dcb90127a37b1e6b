package otlp_test

import (
	"bytes"
	"encoding/base64"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/informd/informd/pkg/event"
	"github.com/informd/informd/pkg/sink"
	"github.com/informd/informd/pkg/sink/otlp"
	"github.com/informd/informd/pkg/sink/sinktest"
)

// partly is an ExportLogsServiceResponse that refuses some records.
func partly(rejected int, words string) []byte {
	inner := protowire.AppendVarint(protowire.AppendTag(nil, 1, protowire.VarintType), uint64(rejected))
	inner = protowire.AppendString(protowire.AppendTag(inner, 2, protowire.BytesType), words)
	return protowire.AppendBytes(protowire.AppendTag(nil, 1, protowire.BytesType), inner)
}

// write writes events and returns the count and the kind of the error.
func write(t *testing.T, s sink.Sink, events []event.Event) (int, string, error) {
	t.Helper()
	n, err := s.Write(t.Context(), events)
	return n, sinktest.Kind(err), err
}

// TestStatuses: what an answer to a single event means, from an endpoint that has accepted
// another one before.
func TestStatuses(t *testing.T) {
	for name, tt := range map[string]struct {
		status, code int
		http, grpc   string
	}{
		"invalid":                  {400, 3, "permanent", "permanent"},
		"too large":                {413, 8, "permanent", "unknown"},
		"not processable":          {422, 9, "permanent", "unknown"},
		"busy":                     {429, 14, "passing", "passing"},
		"bad gateway":              {502, 4, "passing", "passing"},
		"unavailable":              {503, 1, "passing", "passing"},
		"gateway timeout":          {504, 10, "passing", "passing"},
		"error of the server":      {500, 13, "unknown", "unknown"},
		"out of range":             {501, 11, "unknown", "passing"},
		"lost data":                {418, 15, "unknown", "passing"},
		"not authenticated":        {401, 16, "passing", "passing"},
		"forbidden":                {403, 7, "passing", "passing"},
		"no such service":          {404, 12, "passing", "passing"},
		"unknown error":            {409, 2, "unknown", "unknown"},
		"redirect":                 {302, 5, "passing", "unknown"},
		"a code that is not known": {405, 99, "passing", "unknown"},
	} {
		for protocol, change := range protocols() {
			t.Run(name+", "+protocol, func(t *testing.T) {
				e := serve(t, func(n int, w http.ResponseWriter, r request) bool {
					if n == 0 {
						accept(w, r, nil)
						return true
					}
					fail(w, r, tt.status, tt.code)
					return false
				})
				s := open(t, e.URL, change)
				if n, _, err := write(t, s, sinktest.Events(1)); n != 1 {
					t.Fatal(err)
				}
				want, number := tt.http, tt.status
				if protocol == "grpc" {
					want, number = tt.grpc, tt.code
				}
				_, kind, err := write(t, s, sinktest.Events(1))
				if kind != want {
					t.Errorf("the error is %s, want %s: %v", kind, want, err)
				}
				if err != nil && !strings.Contains(err.Error(), strconv.Itoa(number)) {
					t.Errorf("the error does not have the number: %v", err)
				}
			})
		}
	}
}

// TestDistrust: an endpoint that has accepted nothing, or refuses everything, makes no dead
// letters of the stream.
func TestDistrust(t *testing.T) {
	for protocol, change := range protocols() {
		t.Run(protocol, func(t *testing.T) {
			e := serve(t, func(_ int, w http.ResponseWriter, r request) bool {
				fail(w, r, http.StatusBadRequest, 3)
				return false
			})
			if _, kind, err := write(t, open(t, e.URL, change), sinktest.Events(3)); kind != "unknown" {
				t.Errorf("the error is %s, want unknown: %v", kind, err)
			}
		})
	}
}

// TestRetryAfter: pauses that the endpoint asks for, by a header or by RetryInfo, which also
// makes RESOURCE_EXHAUSTED retryable.
func TestRetryAfter(t *testing.T) {
	details := func(delay time.Duration) string {
		info, err := anypb.New(&errdetails.RetryInfo{RetryDelay: durationpb.New(delay)})
		sinktest.Must(t, err)
		raw, err := proto.Marshal(&status.Status{Code: 8, Details: []*anypb.Any{info}})
		sinktest.Must(t, err)
		return base64.StdEncoding.EncodeToString(raw)
	}
	for name, tt := range map[string]struct {
		change func(c *otlp.Config)
		header [2]string
		code   int
		want   time.Duration
	}{
		"header":    {func(*otlp.Config) {}, [2]string{"Retry-After", "17"}, 0, 17 * time.Second},
		"RetryInfo": {useGRPC, [2]string{"Grpc-Status-Details-Bin", details(3 * time.Second)}, 14, 3 * time.Second},
		"quota":     {useGRPC, [2]string{"Grpc-Status-Details-Bin", details(time.Minute)}, 8, time.Minute},
		"too long":  {useGRPC, [2]string{"Grpc-Status-Details-Bin", details(time.Hour)}, 8, 10 * time.Minute},
		"no pause":  {useGRPC, [2]string{"Grpc-Status-Details-Bin", details(0)}, 8, 0},
		"garbage":   {useGRPC, [2]string{"Grpc-Status-Details-Bin", "!!"}, 14, 0},
	} {
		t.Run(name, func(t *testing.T) {
			e := serve(t, func(_ int, w http.ResponseWriter, r request) bool {
				w.Header().Set(tt.header[0], tt.header[1])
				fail(w, r, http.StatusTooManyRequests, tt.code)
				return false
			})
			_, kind, err := write(t, open(t, e.URL, tt.change), sinktest.Events(1))
			if kind != "passing" || sink.RetryAfter(err) != tt.want {
				t.Errorf("%s after %v, want passing after %v: %v", kind, sink.RetryAfter(err), tt.want, err)
			}
		})
	}
}

// TestPartialSuccess: the endpoint refuses the events of one object and does not say which.
func TestPartialSuccess(t *testing.T) {
	for protocol, change := range protocols() {
		t.Run(protocol, func(t *testing.T) {
			events := sinktest.Events(7) // of seven objects
			bad := events[3].Name
			e := serve(t, func(_ int, w http.ResponseWriter, r request) bool {
				refused := 0
				for _, one := range flat(decode(t, r)) {
					if one.attributes["k8s.object.name"] == bad {
						refused++
					}
				}
				accept(w, r, partly(refused, "no"))
				return len(flat(decode(t, r))) > refused
			})
			s := open(t, e.URL, change)
			n, kind, err := write(t, s, events)
			if n != 3 || kind != "permanent" || !strings.Contains(err.Error(), "rejects 1 of 1") {
				t.Fatalf("%d events, the error is %s, want 3 and permanent: %v", n, kind, err)
			}
			if n, _, err := write(t, s, events[4:]); n != 3 {
				t.Fatalf("%d events of the others: %v", n, err)
			}
			got := map[string]bool{}
			for _, r := range records(t, e) {
				got[r.Attributes["id"]] = true
			}
			for i := range events {
				if want := i != 3; got[events[i].ID] != want && want {
					t.Errorf("event %d did not arrive", i)
				}
			}
		})
	}
}

// TestWarnings: an endpoint that accepts each request with other words of warning does not fill the log.
func TestWarnings(t *testing.T) {
	e := serve(t, func(n int, w http.ResponseWriter, r request) bool {
		accept(w, r, partly(0, "request "+strconv.Itoa(n)+" is odd"))
		return true
	})
	var log bytes.Buffer
	s := sinktest.Open(t, config(t, e.URL, nil), logTo(&log))
	for range 5 {
		if n, _, err := write(t, s, sinktest.Events(1)); n != 1 {
			t.Fatal(err)
		}
	}
	if lines := strings.Count(log.String(), "\n"); lines != 1 || !strings.Contains(log.String(), "request 0 is odd") {
		t.Errorf("%d lines:\n%s", lines, log.String())
	}
}

// TestNothingIsAccepted: an endpoint that rejects every record, for a reason that need not be
// the records, makes ten dead letters at most.
func TestNothingIsAccepted(t *testing.T) {
	e := serve(t, func(_ int, w http.ResponseWriter, r request) bool {
		accept(w, r, partly(len(flat(decode(t, r))), "no tenant"))
		return false
	})
	if n, kind, err := write(t, open(t, e.URL, nil), sinktest.Events(5)); n != 0 || kind != "unknown" {
		t.Errorf("%d events, the error is %s, want 0 and unknown: %v", n, kind, err)
	}
}

// TestMaxRequestBytes: requests are no larger than permitted, but for one that has a single
// event, and have all events in order.
func TestMaxRequestBytes(t *testing.T) {
	const limit = 8 << 10
	for protocol, change := range protocols() {
		t.Run(protocol, func(t *testing.T) {
			e := serve(t, nil)
			s := open(t, e.URL, func(c *otlp.Config) {
				change(c)
				c.MaxRequestBytes = limit
			})
			events := append(sinktest.Events(100), sinktest.Big(1, 2*limit)...)
			if n, _, err := write(t, s, events); n != len(events) {
				t.Fatalf("%d events: %v", n, err)
			}
			kept, _ := e.Requests()
			if len(kept) > 40 {
				t.Errorf("%d requests for %d events", len(kept), len(events))
			}
			for _, r := range kept {
				if records := flat(decode(t, r)); len(records) > 1 && proto.Size(decode(t, r)) > limit {
					t.Errorf("a request with %d records has %d bytes", len(records), proto.Size(decode(t, r)))
				}
			}
			var want, got []string
			for i := range events {
				want = append(want, events[i].ID)
			}
			for _, r := range records(t, e) {
				got = append(got, r.Attributes["id"])
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("events (-want +got):\n%s", diff)
			}
		})
	}
}

// TestRequest: where a request goes, over which protocol, and with which headers, with TLS.
func TestRequest(t *testing.T) {
	token := filepath.Join(t.TempDir(), "token")
	sinktest.Must(t, os.WriteFile(token, []byte("secret\n"), 0o600))
	for name, tt := range map[string]struct {
		change      func(c *otlp.Config)
		below       string // the path of the url
		path, proto string
		tls         bool
	}{
		"http":          {func(*otlp.Config) {}, "", "/v1/logs", "HTTP/1.1", false},
		"grpc":          {useGRPC, "", "/opentelemetry.proto.collector.logs.v1.LogsService/Export", "HTTP/2.0", false},
		"http with TLS": {func(*otlp.Config) {}, "", "/v1/logs", "HTTP/2.0", true},
		"grpc with TLS": {useGRPC, "", "/opentelemetry.proto.collector.logs.v1.LogsService/Export", "HTTP/2.0", true},
		"below a path":  {func(*otlp.Config) {}, "/otlp/", "/otlp/v1/logs", "HTTP/1.1", false},
	} {
		t.Run(name, func(t *testing.T) {
			e := unstarted(t, nil)
			if tt.tls {
				e.StartTLS()
			} else {
				e.Start()
			}
			s := open(t, e.URL+tt.below, func(c *otlp.Config) {
				tt.change(c)
				c.Headers = map[string]sink.Secret{"x-scope-orgid": sink.NewSecret("tenant")}
				c.Auth.TokenFile = token
				if tt.tls {
					c.TLS.CAFile = e.CAFile(t)
				}
			})
			if n, _, err := write(t, s, sinktest.Events(2)); n != 2 {
				t.Fatal(err)
			}
			kept, _ := e.Requests()
			r := kept[0]
			got := [5]string{r.Path, r.Proto, r.Header.Get("X-Scope-Orgid"), r.Header.Get("Authorization"), r.Header.Get("User-Agent")}
			if want := [5]string{tt.path, tt.proto, "tenant", "Bearer secret", "informd/test"}; got != want {
				t.Errorf("the endpoint got %q, want %q", got, want)
			}
		})
	}
}

// TestSecretsStayHidden: neither errors nor answers show what is secret.
func TestSecretsStayHidden(t *testing.T) {
	for protocol, change := range protocols() {
		t.Run(protocol, func(t *testing.T) {
			var last atomic.Value
			e := serve(t, func(_ int, w http.ResponseWriter, r request) bool {
				last.Store(r.Header.Get("Authorization"))
				w.Header().Set("Grpc-Message", r.Header.Get("Authorization"))
				fail(w, r, http.StatusUnauthorized, 16)
				return false
			})
			s := open(t, e.URL, func(c *otlp.Config) {
				change(c)
				c.Auth.Token = sink.NewSecret("canary")
			})
			_, kind, err := write(t, s, sinktest.Events(1))
			if kind != "passing" || strings.Contains(err.Error()+sink.Answer(err), "canary") {
				t.Errorf("%s: %v, answer %q", kind, err, sink.Answer(err))
			}
			if last.Load() != "Bearer canary" {
				t.Errorf("the endpoint got %v", last.Load())
			}
		})
	}
}

package sinks_test

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	collector "go.opentelemetry.io/proto/otlp/collector/logs/v1"
	common "go.opentelemetry.io/proto/otlp/common/v1"
	logs "go.opentelemetry.io/proto/otlp/logs/v1"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	_ "google.golang.org/grpc/encoding/gzip" // as in every Collector
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/informd/informd/pkg/event"
	"github.com/informd/informd/pkg/sink"
	"github.com/informd/informd/pkg/sink/otlp"
	"github.com/informd/informd/pkg/sink/sinktest"
	"github.com/informd/informd/test/otelcollector"
)

func otlpConfig(t *testing.T, address string, change func(c *otlp.Config)) *otlp.Config {
	t.Helper()
	return sinktest.Options(t, otlp.Driver(), func(c *otlp.Config) { c.URL = sink.NewSecret(address) }, change)
}

// moody stands before a Collector and refuses every third request: with a status of HTTP, or of
// gRPC.
func moody(t *testing.T, address string, refuse http.HandlerFunc) string {
	t.Helper()
	to, err := url.Parse(address)
	must(t, err)
	transport := &http.Transport{Protocols: &http.Protocols{}}
	proxy := &httputil.ReverseProxy{
		Rewrite:   func(r *httputil.ProxyRequest) { r.SetURL(to) },
		Transport: transport,
		ErrorHandler: func(http.ResponseWriter, *http.Request, error) {
			panic(http.ErrAbortHandler) // the Collector is down: no answer
		},
	}
	var requests atomic.Int64
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if requests.Add(1)%3 == 0 {
			refuse(w, r)
			return
		}
		proxy.ServeHTTP(w, r)
	}))
	server.Config.Protocols = &http.Protocols{}
	for _, p := range []*http.Protocols{transport.Protocols, server.Config.Protocols} {
		p.SetHTTP1(!strings.Contains(t.Name(), "grpc"))
		p.SetUnencryptedHTTP2(strings.Contains(t.Name(), "grpc"))
	}
	server.Start()
	t.Cleanup(func() {
		server.Close()
		transport.CloseIdleConnections()
	})
	return server.URL
}

// TestCollector: every event arrives in a real Collector as it was rendered, in the order of each
// object, though requests are answered with 429, 503 and UNAVAILABLE, and the Collector is killed and
// started again. What arrives twice has the same id.
func TestCollector(t *testing.T) {
	busy := func(status int) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(status) }
	}
	unavailable := func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/grpc")
		w.Header().Set("Grpc-Status", "14")
	}
	for name, tt := range map[string]struct {
		change func(c *otlp.Config)
		refuse http.HandlerFunc
	}{
		"http":       {func(*otlp.Config) {}, busy(http.StatusTooManyRequests)},
		"http, gzip": {func(c *otlp.Config) { c.Compression = "gzip" }, busy(http.StatusServiceUnavailable)},
		"http, zstd": {func(c *otlp.Config) { c.Compression, c.Shape = "zstd", otlp.ShapeObjects }, busy(http.StatusBadGateway)},
		"grpc":       {func(c *otlp.Config) { c.Protocol = otlp.GRPC }, unavailable},
		"grpc, gzip": {func(c *otlp.Config) { c.Protocol, c.Compression = otlp.GRPC, "gzip" }, busy(http.StatusServiceUnavailable)},
	} {
		t.Run(name, func(t *testing.T) {
			server := otelcollector.Start(t, otelcollector.Options{})
			address := server.HTTP()
			if strings.HasPrefix(name, "grpc") {
				address = server.GRPC()
			}
			c := otlpConfig(t, moody(t, address, tt.refuse), tt.change)
			s := sinktest.Open(t, c)
			events := sinktest.Events(600)
			events = append(append(events, sinktest.AllOps()...), sinktest.Hostile()...)
			events = append(events, sinktest.Big(1, 1<<20)...)
			restarted := make(chan error, 1)
			for done, killed := 0, false; done < len(events); {
				if done > 200 && !killed {
					killed = true
					must(t, server.Kill())
					go func() { restarted <- server.Process.Start(context.WithoutCancel(t.Context())) }()
				}
				n, err := s.Write(t.Context(), events[done:min(done+25, len(events))])
				if done += n; err != nil {
					if sink.IsPermanent(err) || sink.IsUnknown(err) {
						t.Fatalf("after %d events: %v", done, err)
					}
					t.Logf("after %d events: %v", done, err)
					rest(t)
				}
			}
			must(t, <-restarted)
			compareWithRendered(t, c, events, server.Received(t))
		})
	}
}

// rest is the pause between two attempts, as a runner makes it.
func rest(t *testing.T) {
	t.Helper()
	select {
	case <-time.After(100 * time.Millisecond):
	case <-t.Context().Done():
		t.Fatal(t.Context().Err())
	}
}

// line is one record with its resource and scope, for comparison.
type line struct {
	Group  *logs.ResourceLogs // without records
	Record *logs.LogRecord
}

// lines lists records; those that came before are left out.
func lines(t *testing.T, requests []*logs.LogsData) (all []line, repeats int) {
	t.Helper()
	seen := map[string]bool{}
	for _, data := range requests {
		for _, group := range data.GetResourceLogs() {
			records := group.GetScopeLogs()[0].GetLogRecords()
			group.ScopeLogs[0].LogRecords = nil
			for _, r := range records {
				if r.Body == nil {
					r.Body = &common.AnyValue{} // the Collector writes no difference
				}
				content, err := proto.MarshalOptions{Deterministic: true}.Marshal(r)
				must(t, err)
				if seen[string(content)] {
					repeats++
					continue
				}
				seen[string(content)] = true
				all = append(all, line{group, r})
			}
		}
	}
	return all, repeats
}

// compareWithRendered compares what arrived with what `informd try` shows, in the order of the events:
// one sink sent them one request after the other.
func compareWithRendered(t *testing.T, c *otlp.Config, events []event.Event, received []*logs.LogsData) {
	t.Helper()
	rendered := make([]*logs.LogsData, len(events))
	for i := range events {
		r, err := c.Render(sinktest.Env(t), &events[i])
		must(t, err)
		rendered[i] = &logs.LogsData{}
		must(t, protojson.Unmarshal(r.Text, rendered[i]))
	}
	want, _ := lines(t, rendered)
	got, repeats := lines(t, received)
	t.Logf("%d records, %d of them came again", len(got), repeats)
	if len(want) != len(got) {
		t.Fatalf("%d records arrived, want %d", len(got), len(want))
	}
	for i := range want {
		if !proto.Equal(want[i].Group, got[i].Group) || !proto.Equal(want[i].Record, got[i].Record) {
			t.Fatalf("record %d (-rendered +arrived):\n%s", i, cmp.Diff(want[i], got[i], protocmp.Transform()))
		}
	}
}

// TestCollectorAtAnotherPort: the error of a protocol that is not that of the port says what to check.
func TestCollectorAtAnotherPort(t *testing.T) {
	server := otelcollector.Start(t, otelcollector.Options{})
	for address, protocol := range map[string]otlp.Protocol{
		server.GRPC(): otlp.HTTP,
		server.HTTP(): otlp.GRPC,
		strings.Replace(server.HTTP(), "http:", "https:", 1): otlp.HTTP,
		strings.Replace(server.GRPC(), "http:", "https:", 1): otlp.GRPC,
	} {
		s := sinktest.Open(t, otlpConfig(t, address, func(c *otlp.Config) { c.Protocol = protocol }))
		for range 2 {
			_, err := s.Write(t.Context(), sinktest.Events(1))
			if err == nil || sink.IsPermanent(err) || sink.IsUnknown(err) || !strings.Contains(err.Error(), "check url and protocol") {
				t.Errorf("%s with protocol: %s: %v", address, protocol, err)
			}
		}
	}
}

// service is an endpoint of grpc-go.
type service struct {
	collector.UnimplementedLogsServiceServer

	answer func(records int) (*collector.ExportLogsServiceResponse, error)
}

func (s service) Export(_ context.Context, r *collector.ExportLogsServiceRequest) (*collector.ExportLogsServiceResponse, error) {
	records := 0
	for _, group := range r.GetResourceLogs() {
		records += len(group.GetScopeLogs()[0].GetLogRecords())
	}
	return s.answer(records)
}

// TestGRPCServer: the answers of a server with grpc-go, the library of the Collector.
func TestGRPCServer(t *testing.T) {
	asked, err := status.New(codes.ResourceExhausted, "slow down").WithDetails(&errdetails.RetryInfo{RetryDelay: durationpb.New(7 * time.Second)})
	must(t, err)
	fine := &collector.ExportLogsServiceResponse{}
	partly := &collector.ExportLogsServiceResponse{PartialSuccess: &collector.ExportLogsPartialSuccess{RejectedLogRecords: 1, ErrorMessage: "too old"}}
	warned := &collector.ExportLogsServiceResponse{PartialSuccess: &collector.ExportLogsPartialSuccess{ErrorMessage: "deprecated"}}
	for name, tt := range map[string]struct {
		answer func(records int) (*collector.ExportLogsServiceResponse, error)
		want   string
	}{
		"accepted":       {func(int) (*collector.ExportLogsServiceResponse, error) { return fine, nil }, "3 <nil>"},
		"warned":         {func(int) (*collector.ExportLogsServiceResponse, error) { return warned, nil }, "3 <nil>"},
		"asks for pause": {func(int) (*collector.ExportLogsServiceResponse, error) { return nil, asked.Err() }, "0 again 7s"},
		"quota": {func(int) (*collector.ExportLogsServiceResponse, error) {
			return nil, status.Error(codes.ResourceExhausted, "quota")
		}, "0 unknown"},
		"unavailable": {func(int) (*collector.ExportLogsServiceResponse, error) {
			return nil, status.Error(codes.Unavailable, "50% down: \"ünü\"\n")
		}, "0 again 0s"},
		"one is bad": {func(records int) (*collector.ExportLogsServiceResponse, error) {
			if records == 1 {
				return nil, status.Error(codes.InvalidArgument, "bad")
			}
			return partly, nil
		}, "0 permanent"},
	} {
		t.Run(name, func(t *testing.T) {
			listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
			must(t, err)
			server := grpc.NewServer()
			collector.RegisterLogsServiceServer(server, service{answer: tt.answer})
			ended := make(chan error, 1)
			go func() { ended <- server.Serve(listener) }()
			t.Cleanup(func() {
				server.Stop()
				if err := <-ended; err != nil {
					t.Error(err)
				}
			})
			s := sinktest.Open(t, otlpConfig(t, "http://"+listener.Addr().String(), func(c *otlp.Config) {
				c.Protocol, c.Compression = otlp.GRPC, "gzip"
			}))
			n, err := s.Write(t.Context(), sinktest.Events(3))
			got := fmt.Sprint(n, " ", err)
			switch {
			case sink.IsPermanent(err):
				got = fmt.Sprint(n, " permanent")
			case sink.IsUnknown(err):
				got = fmt.Sprint(n, " unknown")
			case err != nil:
				got = fmt.Sprint(n, " again ", sink.RetryAfter(err))
			}
			if got != tt.want {
				t.Errorf("Write: %s, want %s: %v", got, tt.want, err)
			}
		})
	}
}

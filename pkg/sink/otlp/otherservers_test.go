package otlp_test

import (
	"bytes"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"

	"github.com/informd/informd/pkg/sink"
	"github.com/informd/informd/pkg/sink/otlp"
	"github.com/informd/informd/pkg/sink/sinktest"
)

// TestOtherServers: what is no endpoint of OTLP accepts nothing.
func TestOtherServers(t *testing.T) {
	for name, tt := range map[string]struct {
		change func(c *otlp.Config)
		answer http.HandlerFunc
	}{
		"half an answer": {func(*otlp.Config) {}, func(w http.ResponseWriter, _ *http.Request) {
			whole := partly(1, "no") // which begins like an acceptance of everything
			w.Header().Set("Content-Length", strconv.Itoa(len(whole)))
			w.WriteHeader(http.StatusOK)
			_ = http.NewResponseController(w).Flush()
			panic(http.ErrAbortHandler)
		}},
		"a page over grpc":   {useGRPC, func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("<html>")) }},
		"no message of gRPC": {useGRPC, func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("Grpc-Status", "0") }},
		"half a message": {useGRPC, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Grpc-Status", "0")
			_, _ = w.Write([]byte{0, 0, 0, 0, 9, 1})
		}},
		"a switch of protocol": {func(*otlp.Config) {}, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusSwitchingProtocols) }},
	} {
		t.Run(name, func(t *testing.T) {
			e := unstarted(t, nil)
			e.Config.Handler = tt.answer
			e.Start()
			if n, kind, err := write(t, open(t, e.URL, tt.change), sinktest.Events(1)); n != 0 || kind != "passing" {
				t.Errorf("%d events, the error is %s, want 0 and passing: %v", n, kind, err)
			}
		})
	}
}

// TestForeignSuccess: a status of 2xx accepts the events, whatever the answer says, as in other
// exporters. An answer that no endpoint of OTLP gives is in the log, once.
func TestForeignSuccess(t *testing.T) {
	for name, tt := range map[string]struct {
		status       int
		kind, answer string
		warns        int
	}{
		"a page":                 {200, "text/html", "<html>", 1},
		"text like a refusal":    {200, "text/plain", string(partly(1, "no")), 1},
		"broken":                 {200, "application/x-protobuf", "<html>", 1},
		"another status":         {202, "text/plain", "accepted", 1},
		"no content":             {204, "", "", 0},
		"nothing":                {200, "text/plain", "", 0},
		"JSON":                   {200, "application/json", "{}", 0},
		"JSON of something else": {200, "application/json; charset=utf-8", `{"status":"ok"}`, 0},
		"a list":                 {200, "application/json", "[]", 1},
	} {
		t.Run(name, func(t *testing.T) {
			e := serve(t, func(_ int, w http.ResponseWriter, _ request) bool {
				w.Header().Set("Content-Type", tt.kind)
				w.WriteHeader(tt.status)
				_, _ = w.Write([]byte(tt.answer))
				return true
			})
			var log bytes.Buffer
			s := sinktest.Open(t, config(t, e.URL, nil), logTo(&log))
			for range 3 {
				if n, _, err := write(t, s, sinktest.Events(2)); n != 2 {
					t.Fatal(err)
				}
			}
			if kept, _ := e.Requests(); len(kept) != 3 {
				t.Errorf("%d requests, want 3", len(kept))
			}
			if lines := strings.Count(log.String(), "\n"); lines != tt.warns {
				t.Errorf("%d lines, want %d:\n%s", lines, tt.warns, log.String())
			}
		})
	}
}

// TestPartialSuccessInJSON: some endpoints answer in JSON whatever they are sent.
func TestPartialSuccessInJSON(t *testing.T) {
	for _, number := range []string{`"1"`, "1"} {
		e := serve(t, func(n int, w http.ResponseWriter, _ request) bool {
			w.Header().Set("Content-Type", "application/json")
			if n > 0 {
				_, _ = w.Write([]byte(`{"partialSuccess":{"rejectedLogRecords":` + number + `,"errorMessage":"no"}}`))
			}
			return n == 0
		})
		s := open(t, e.URL, nil)
		if n, kind, err := write(t, s, append(sinktest.Events(1), sinktest.Big(1, 3<<20)...)); n != 1 || kind != "permanent" || sink.Answer(err) != "no" {
			t.Errorf("%s: %d events, the error is %s, want 1 and permanent: %v", number, n, kind, err)
		}
	}
}

// TestWrongPort: an endpoint that speaks another protocol. The error says which keys to check.
func TestWrongPort(t *testing.T) {
	http1 := httptest.NewServer(http.NotFoundHandler())
	defer http1.Close()
	http1.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelInfo)
	grpc := sinktest.Listen(t, func(conn net.Conn) { // as servers of gRPC, which begin with their settings
		_, _ = conn.Write([]byte{0, 0, 0, 4, 0, 0, 0, 0, 0})
		_, _ = conn.Read(make([]byte, 1<<10))
		_ = conn.Close()
	})
	for name, tt := range map[string]struct {
		url    string
		change func(c *otlp.Config)
	}{
		"http to gRPC":             {"http://" + grpc, nil},
		"grpc to HTTP":             {http1.URL, useGRPC},
		"https to HTTP":            {strings.Replace(http1.URL, "http:", "https:", 1), nil},
		"grpc with TLS to HTTP":    {strings.Replace(http1.URL, "http:", "https:", 1), useGRPC},
		"https to gRPC":            {"https://" + grpc, nil},
		"an endpoint without logs": {http1.URL, nil},
	} {
		t.Run(name, func(t *testing.T) {
			n, kind, err := write(t, open(t, tt.url, tt.change), sinktest.Events(1))
			if n != 0 || kind != "passing" || !strings.Contains(err.Error(), "check url and protocol") {
				t.Errorf("%d events, the error is %s, want 0 and passing, and what to check: %v", n, kind, err)
			}
		})
	}
}

// Package otelcollector runs a real OpenTelemetry Collector for tests, as a process of its own on
// loopback ports. It writes what it receives over OTLP to one file, and what its receiver
// k8sobjects reads from a cluster to another. Tests kill, freeze and restart it; ports and files stay.
//
//	collector := otelcollector.Start(t, otelcollector.Options{})
//	records := collector.Received(t)
//
// The binary is built and cached by package binary of ../cluster.
package otelcollector

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"strings"
	"testing"

	logs "go.opentelemetry.io/proto/otlp/logs/v1"
	"google.golang.org/protobuf/encoding/protojson"

	"github.com/informd/informd/test/cluster/binary"
	"github.com/informd/informd/test/cluster/proc"
)

// Options of a Collector. The zero value receives over OTLP only.
type Options struct {
	// Objects are the entries of the receiver k8sobjects, as a YAML list in one line. The
	// environment variable KUBECONFIG names the cluster. Empty: the receiver does not run.
	Objects string
}

// Server is one Collector. The methods of [proc.Process] are its own: Start, Stop, Kill, Freeze, Thaw
// and the rest.
type Server struct {
	*proc.Process
	dir        *proc.Dir
	http, grpc *proc.Port
}

// Start starts a Collector and blocks until it accepts connections. It fails the test on an error,
// and ends the Collector at the end of the test.
func Start(t *testing.T, options Options) *Server {
	t.Helper()
	s := &Server{}
	if err := s.prepare(t.Context(), options); err != nil {
		t.Fatal(errors.Join(err, s.close()))
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the Collector\n%s", s.LogTail())
		}
		if err := s.close(); err != nil {
			t.Errorf("end the Collector: %v", err)
		}
	})
	if err := s.Process.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	return s
}

// HTTP returns the address of the endpoint for OTLP over HTTP.
func (s *Server) HTTP() string { return "http://" + s.http.Address() }

// GRPC returns the address of the endpoint for OTLP over gRPC.
func (s *Server) GRPC() string { return "http://" + s.grpc.Address() }

// Received returns what has arrived over OTLP, request by request, in its order.
func (s *Server) Received(t *testing.T) []*logs.LogsData {
	t.Helper()
	return read(t, s.dir.Join("received.json"))
}

// Watched returns what the receiver k8sobjects has read, in its order.
func (s *Server) Watched(t *testing.T) []*logs.LogsData {
	t.Helper()
	return read(t, s.dir.Join("watched.json"))
}

// begin is that of each line of a file.
const begin = `{"resourceLogs":`

// read reads the lines of a file. A killed Collector leaves a part of a line at the end, which was
// not acknowledged. The next line follows on it.
func read(t *testing.T, path string) []*logs.LogsData {
	t.Helper()
	content, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	var all []*logs.LogsData
	for line := range bytes.Lines(content) {
		whole := line[max(0, bytes.LastIndex(line, []byte(begin))):]
		if !bytes.HasSuffix(whole, []byte("\n")) {
			break
		}
		var data logs.LogsData
		if err := (protojson.UnmarshalOptions{DiscardUnknown: true}).Unmarshal(whole, &data); err != nil {
			t.Fatalf("read %s: %v in %.200s", path, err, whole)
		}
		all = append(all, &data)
	}
	return all
}

func (s *Server) prepare(ctx context.Context, options Options) error {
	path, err := binary.Collector(ctx)
	if err != nil {
		return fmt.Errorf("start the Collector: %w", err)
	}
	if s.dir, err = proc.TempDir("collector"); err != nil {
		return err
	}
	if s.http, err = proc.FreePort(); err != nil {
		return err
	}
	if s.grpc, err = proc.FreePort(); err != nil {
		return err
	}
	config := s.dir.Join("collector.yaml")
	if err := os.WriteFile(config, s.config(options), 0o600); err != nil {
		return err
	}
	s.Process = proc.New(proc.Spec{Name: "collector", Path: path, Args: []string{"--config", config}, Log: s.dir.Join("collector.log"), Ready: s.ready})
	return nil
}

// config is the configuration. With rotation the exporter has no buffer of its own: what it has
// acknowledged is in the file, also if it is killed.
func (s *Server) config(options Options) []byte {
	var b strings.Builder
	fmt.Fprintf(&b, "receivers:\n  otlp: {protocols: {http: {endpoint: %q}, grpc: {endpoint: %q}}}\n", s.http.Address(), s.grpc.Address())
	if options.Objects != "" {
		fmt.Fprintf(&b, "  k8sobjects: {auth_type: kubeConfig, objects: %s}\n", options.Objects)
	}
	b.WriteString("exporters:\n")
	for _, name := range []string{"received", "watched"} {
		fmt.Fprintf(&b, "  file/%s: {path: %q, rotation: {max_megabytes: 1000}}\n", name, s.dir.Join(name+".json"))
	}
	b.WriteString("service:\n  telemetry: {metrics: {level: none}}\n  pipelines:\n    logs/received: {receivers: [otlp], exporters: [file/received]}\n")
	if options.Objects != "" {
		b.WriteString("    logs/watched: {receivers: [k8sobjects], exporters: [file/watched]}\n")
	}
	return []byte(b.String())
}

func (s *Server) ready(ctx context.Context) error {
	for _, port := range []*proc.Port{s.http, s.grpc} {
		conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", port.Address())
		if err != nil {
			return err
		}
		_ = conn.Close()
	}
	return nil
}

func (s *Server) close() error {
	var errs []error
	if s.Process != nil {
		errs = append(errs, s.Kill())
	}
	for _, port := range []*proc.Port{s.http, s.grpc} {
		if port != nil {
			port.Release()
		}
	}
	if s.dir != nil {
		errs = append(errs, s.dir.Close())
	}
	return errors.Join(errs...)
}

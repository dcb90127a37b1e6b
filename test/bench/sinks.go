package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/informd/informd/test/kafka"
	"github.com/informd/informd/test/natsserver"
	"github.com/informd/informd/test/postgres"
)

// sinkKind is where a client delivers.
type sinkKind string

const (
	// noSink is the least that a client can do with an event. The baseline drops
	// what it has encoded. informd has no sink that drops: it gets one whose match
	// lets no object through, so that events go through journal and match.
	noSink       sinkKind = "none"
	stdoutSink   sinkKind = "stdout" // to /dev/null
	natsSink     sinkKind = "nats"
	jetStream    sinkKind = "jetstream"
	kafkaSink    sinkKind = "kafka"
	webhookSink  sinkKind = "webhook" // 64 events at most in a request
	otlpSink     sinkKind = "otlp"
	fileSink     sinkKind = "file"
	execSink     sinkKind = "exec"
	postgresSink sinkKind = "postgres"
)

// sinkType is a sink and what it delivers to, the other end.
type sinkType struct {
	kind sinkKind
	// config is the sink in a config of informd's, where ADDRESS is that of the other end.
	config string
	// start starts the other end, and returns its address and how to end it.
	start func(ctx context.Context, b *bench) (address string, end func() error, err error)
}

// sinkTypes are all sinks. Of webhook and otlp the other end reads requests and accepts them, in this process; of
// exec it is a program that acknowledges what it reads. The others are the real ones.
func sinkTypes() []sinkType {
	return []sinkType{
		{noSink, `type: stdout, match: [{namespaces: [nowhere]}]`, startNothing},
		{stdoutSink, `type: stdout`, startNothing},
		{natsSink, `type: nats, jetstream: false, servers: ["ADDRESS"], subjectPrefix: events`, startNATS},
		{jetStream, `type: nats, servers: ["ADDRESS"], subjectPrefix: events, stream: EVENTS`, startNATS},
		{kafkaSink, `type: kafka, servers: ["ADDRESS"], topic: events`, startKafka},
		{webhookSink, `type: webhook, url: "ADDRESS", batch: 64`, acceptAll},
		{otlpSink, `type: otlp, url: "ADDRESS"`, acceptAll},
		{fileSink, `type: file, path: "ADDRESS"`, startFile},
		{execSink, `type: exec, command: ["ADDRESS", acknowledge]`, func(_ context.Context, b *bench) (string, func() error, error) {
			return b.self, func() error { return nil }, nil
		}},
		{postgresSink, `type: postgres, servers: ["ADDRESS"], database: ` + postgres.Database +
			`, auth: {username: ` + postgres.User + `, password: ` + postgres.Password + `}`, startPostgres},
	}
}

// sinkSpec is a sink and the address of its other end.
type sinkSpec struct {
	kind sinkKind
	url  string
}

func typeOf(k sinkKind) (sinkType, error) {
	all := sinkTypes()
	i := slices.IndexFunc(all, func(t sinkType) bool { return t.kind == k })
	if i < 0 {
		return sinkType{}, fmt.Errorf("no sink %q: there are %s", k, strings.Join(sinkNames(), ", "))
	}
	return all[i], nil
}

func sinkNames() (names []string) {
	for _, t := range sinkTypes() {
		names = append(names, string(t.kind))
	}
	return names
}

// informd is the sink in a config of informd's.
func (s sinkSpec) informd() (string, error) {
	t, err := typeOf(s.kind)
	return "{name: out, " + strings.ReplaceAll(t.config, "ADDRESS", s.url) + "}", err
}

// openSink starts what the sink needs and returns how to end it.
func (b *bench) openSink(ctx context.Context, k sinkKind) (sinkSpec, func() error, error) {
	t, err := typeOf(k)
	if err != nil {
		return sinkSpec{}, nil, err
	}
	address, end, err := t.start(ctx, b)
	if err != nil {
		return sinkSpec{}, nil, fmt.Errorf("start what the sink %s delivers to: %w", k, err)
	}
	return sinkSpec{k, address}, end, nil
}

func startNothing(context.Context, *bench) (string, func() error, error) {
	return "", func() error { return nil }, nil
}

func startNATS(ctx context.Context, b *bench) (string, func() error, error) {
	s, err := natsserver.New(ctx, natsserver.Options{})
	if err != nil {
		return "", nil, err
	}
	return s.URL(), s.Close, pin(s.PID(), b.serverCPUs)
}

func startKafka(ctx context.Context, b *bench) (string, func() error, error) {
	c, err := kafka.New(ctx, kafka.Options{})
	if err != nil {
		return "", nil, err
	}
	return c.Broker(1).Address(), c.Close, pin(c.Broker(1).PID(), b.serverCPUs)
}

func startPostgres(ctx context.Context, b *bench) (string, func() error, error) {
	s, err := postgres.New(ctx, postgres.Options{Durable: true})
	if err != nil {
		return "", nil, err
	}
	return s.Address(), s.Close, pin(s.PID(), b.serverCPUs)
}

func startFile(_ context.Context, b *bench) (string, func() error, error) {
	dir, err := os.MkdirTemp(b.dir, "file-")
	return filepath.Join(dir, "events.ndjson"), func() error { return os.RemoveAll(dir) }, err
}

// acceptAll is an HTTP server that reads what it is sent and says that it has it.
func acceptAll(ctx context.Context, _ *bench) (url string, end func() error, err error) {
	var config net.ListenConfig
	listener, err := config.Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return "", nil, err
	}
	s := &http.Server{ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // a client that breaks off repeats it
	})}
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(listener) }()
	return "http://" + listener.Addr().String(), func() error {
		err := s.Close()
		if served := <-ended; !errors.Is(served, http.ErrServerClosed) {
			err = errors.Join(err, served)
		}
		return err
	}, nil
}

// acknowledge is the program of the exec sink: it reads events, and acknowledges the last one when no other
// waits to be read.
func acknowledge(in io.Reader, out io.Writer) error {
	events := bufio.NewReaderSize(in, 2<<20)
	for {
		line, err := events.ReadSlice('\n')
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if events.Buffered() > 0 {
			continue
		}
		var last struct{ ID string }
		if err := json.Unmarshal(line, &last); err != nil {
			return err
		}
		if _, err := fmt.Fprintln(out, "upto", last.ID); err != nil {
			return err
		}
	}
}

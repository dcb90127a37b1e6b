package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"

	"github.com/informd/informd/test/natsserver"
)

// sinkKind is where a client delivers.
type sinkKind string

const (
	// noSink is the least that a client can do with an event. The baseline drops
	// what it has encoded. informd has no sink that drops: it gets one whose route
	// lets no object through, so that events go through journal and route.
	noSink      sinkKind = "none"
	stdoutSink  sinkKind = "stdout" // to /dev/null
	natsSink    sinkKind = "nats"
	jetStream   sinkKind = "jetstream"
	webhookSink sinkKind = "webhook" // 64 events at most in a request
)

// sinkSpec is a sink and its address.
type sinkSpec struct {
	kind sinkKind
	url  string
}

// informd is the sink in a config of informd's.
func (s sinkSpec) informd(server *server) string {
	switch s.kind {
	case noSink:
		return fmt.Sprintf("{name: out, type: stdout, match: [{%s, namespaces: [nowhere]}]}", server.entry())
	case natsSink:
		return fmt.Sprintf("{name: out, type: nats, jetstream: false, servers: [%q], subjectPrefix: events}", s.url)
	case jetStream:
		return fmt.Sprintf("{name: out, type: nats, servers: [%q], subjectPrefix: events, stream: EVENTS}", s.url)
	case webhookSink:
		return fmt.Sprintf("{name: out, type: webhook, url: %q, batch: 64}", s.url)
	default:
		return "{name: out, type: stdout}"
	}
}

// openSink starts what the sink needs and returns how to end it.
func (b *bench) openSink(ctx context.Context, k sinkKind) (sinkSpec, func() error, error) {
	switch k {
	case natsSink, jetStream:
		s, err := natsserver.New(ctx, natsserver.Options{})
		if err != nil {
			return sinkSpec{}, nil, err
		}
		return sinkSpec{k, s.URL()}, s.Close, pin(s.PID(), b.serverCPUs)
	case webhookSink:
		url, end, err := acceptAll(ctx)
		return sinkSpec{k, url}, end, err
	default:
		return sinkSpec{kind: k}, func() error { return nil }, nil
	}
}

// acceptAll is an HTTP server that reads what it is sent and says that it has it.
func acceptAll(ctx context.Context) (url string, end func() error, err error) {
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

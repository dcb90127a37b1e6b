package chaos

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/client-go/rest"
)

// FrameProxy is a proxy in plain HTTP before an API server that reads watches
// frame by frame, so that it can lose one. It logs in by itself, with the rights
// of the user it was made for.
type FrameProxy struct {
	server  *http.Server
	url     string
	running sync.WaitGroup
	drop    atomic.Int64 // how many DELETED frames are still to be lost
	dropped atomic.Int64
}

// NewFrameProxy listens on a loopback port and forwards to the API server of the
// client configuration.
func NewFrameProxy(api *rest.Config) (*FrameProxy, error) {
	target, err := url.Parse(api.Host)
	if err != nil {
		return nil, err
	}
	transport, err := rest.TransportFor(api)
	if err != nil {
		return nil, err
	}
	var config net.ListenConfig
	listener, err := config.Listen(context.Background(), "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	p := &FrameProxy{url: "http://" + listener.Addr().String()}
	silent := slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	p.server = &http.Server{
		ReadHeaderTimeout: time.Minute, ErrorLog: silent,
		Handler: &httputil.ReverseProxy{
			Rewrite:        func(r *httputil.ProxyRequest) { r.SetURL(target) },
			Transport:      transport,
			FlushInterval:  -1,
			ErrorLog:       silent,
			ModifyResponse: p.modify,
			ErrorHandler:   func(w http.ResponseWriter, _ *http.Request, _ error) { w.WriteHeader(http.StatusBadGateway) },
		},
	}
	p.running.Go(func() { _ = p.server.Serve(listener) }) // ends with Close
	return p, nil
}

// URL returns the address to use in place of the API server's.
func (p *FrameProxy) URL() string { return p.url }

// Close ends the proxy and its connections.
func (p *FrameProxy) Close() error {
	err := p.server.Close()
	p.running.Wait()
	return err
}

// DropDeletions loses the next n DELETED frames of any watch.
func (p *FrameProxy) DropDeletions(n int64) { p.drop.Add(n) }

// Dropped returns how many frames were lost so far.
func (p *FrameProxy) Dropped() int64 { return p.dropped.Load() }

func (p *FrameProxy) modify(r *http.Response) error {
	if r.Request.URL.Query().Get("watch") != "" && r.StatusCode == http.StatusOK {
		r.Body = &frames{proxy: p, body: r.Body, lines: bufio.NewReader(r.Body)}
		r.ContentLength = -1
		r.Header.Del("Content-Length")
	}
	return nil
}

// frames passes a watch on without the frames that are to be lost.
type frames struct {
	proxy   *FrameProxy
	body    io.Closer
	lines   *bufio.Reader
	pending []byte
	err     error
}

func (f *frames) Read(p []byte) (int, error) {
	for len(f.pending) == 0 {
		if f.err != nil {
			return 0, f.err
		}
		f.pending, f.err = f.lines.ReadBytes('\n')
		if bytes.HasPrefix(f.pending, []byte(`{"type":"DELETED"`)) && f.proxy.take() {
			f.pending = nil
		}
	}
	n := copy(p, f.pending)
	f.pending = f.pending[n:]
	return n, nil
}

func (f *frames) Close() error { return f.body.Close() }

// take reports whether one more frame is to be lost, and counts it.
func (p *FrameProxy) take() bool {
	if p.drop.Add(-1) < 0 {
		p.drop.Add(1)
		return false
	}
	p.dropped.Add(1)
	return true
}

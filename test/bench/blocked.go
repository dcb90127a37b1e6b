package main

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"sync"
	"time"
)

// gate is an HTTP server that takes what it is sent, until it is closed: then it
// answers nobody until it is opened again.
type gate struct {
	url    string
	server *http.Server

	mu   sync.Mutex
	open chan struct{} // closed while the gate is open
}

func newGate(ctx context.Context) (*gate, error) {
	var config net.ListenConfig
	listener, err := config.Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	g := &gate{url: "http://" + listener.Addr().String(), open: make(chan struct{})}
	close(g.open)
	g.server = &http.Server{ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // a client that breaks off repeats it
		g.mu.Lock()
		open := g.open
		g.mu.Unlock()
		select {
		case <-open:
		case <-r.Context().Done():
		}
	})}
	go func() { _ = g.server.Serve(listener) }() // until Close
	return g, nil
}

func (g *gate) block() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.open = make(chan struct{})
}

func (g *gate) unblock() {
	g.mu.Lock()
	defer g.mu.Unlock()
	close(g.open)
}

// blocked lets 1,000 events happen a second while informd's only sink takes nothing,
// and looks at informd's memory; then everything has to come out after all.
func (b *bench) blocked(ctx context.Context) (err error) {
	const rate = 1000
	lasts, before := 5*time.Minute, 10*time.Second
	if b.quick {
		lasts, before = 5*time.Second, 2*time.Second
	}
	server, err := b.startServer(ctx, source{corpus: "pods", objects: 1000})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, server.stop()) }()
	g, err := newGate(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, g.server.Close()) }()
	c, err := b.startClient(informd, setup{server: server, sink: sinkSpec{webhookSink, g.url}})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.end()) }()
	if _, _, err := c.settle(ctx, border{}, 1000, 0, 1000); err != nil {
		return err
	}
	events := int((lasts + before).Seconds()) * rate
	if err := server.play(ctx, events, rate); err != nil {
		return err
	}
	free, err := c.most(ctx, before)
	if err != nil {
		return err
	}
	g.block()
	filling := lasts / 10
	full, err := c.most(ctx, filling)
	if err != nil {
		return err
	}
	most, err := c.most(ctx, lasts-filling)
	if err != nil {
		return err
	}
	g.unblock()
	b.blockedRSS = [3]float64{free, full, most}
	b.say("sink blocked for %v: RSS up to %.1f MiB before, %.1f while the journal filled, %.1f after that", lasts, free, full, most)
	_, h, err := c.settle(ctx, border{}, 1000, int64(events), 0)
	b.say("sink open again: %d updates came out of %d", h.updates, events)
	return err
}

// most is the highest RSS in some time, in MiB.
func (c *client) most(ctx context.Context, during time.Duration) (most float64, err error) {
	tick := time.NewTicker(250 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(during); time.Now().Before(end); {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return most, ctx.Err()
		}
		now, err := c.memory("VmRSS")
		if err != nil {
			return most, err
		}
		most = max(most, now)
	}
	return most, nil
}

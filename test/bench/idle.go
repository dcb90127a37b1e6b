package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/informd/informd/test/bench/corpus"
)

// idle measures informd with a target for each namespace and next to nothing to do.
func (b *bench) idle(ctx context.Context) (err error) {
	const rate = 10 // events/s
	server, err := b.startServer(ctx, source{corpus: "pods", objects: 1000})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, server.stop()) }()
	var namespaces []string
	for i := range corpus.Namespaces {
		namespaces = append(namespaces, corpus.Namespace(i))
	}
	c, err := b.startClient(informd, setup{
		server: server, sink: sinkSpec{kind: stdoutSink}, resources: fmt.Sprintf("  - {resource: pods, namespaces: [%s]}", strings.Join(namespaces, ", ")),
	})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.end()) }()
	if _, _, err := c.settle(ctx, border{}, 1000, 0, 1000); err != nil {
		return err
	}
	window, windows := 20*time.Second, b.times(3)
	if b.quick {
		window = 2 * time.Second
	}
	events := int((window + time.Second).Seconds() * float64(windows) * rate)
	if err := server.play(ctx, events, rate); err != nil {
		return err
	}
	for range windows {
		from, err := c.border(0)
		if err != nil {
			return err
		}
		select {
		case <-time.After(window):
		case <-ctx.Done():
			return ctx.Err()
		}
		to, err := c.border(0)
		if err != nil {
			return err
		}
		b.idleShares = append(b.idleShares, 100*float64(to.cpu-from.cpu)/float64(to.at.Sub(from.at)))
		b.say("idle, %d targets, %d events/s: %.2f%% of one core", len(namespaces), rate, b.idleShares[len(b.idleShares)-1])
	}
	_, _, err = c.settle(ctx, border{}, 1000, int64(events), 0)
	return err
}

package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/informd/informd/test/bench/corpus"
)

// idleCase is informd with a target for each of many namespaces and next to nothing to do.
type idleCase struct {
	targets int
	rate    int // events/s
}

func idleCases() []idleCase { return []idleCase{{50, 10}, {300, 0}} }

// idle measures each case.
func (b *bench) idle(ctx context.Context) error {
	b.idleShares = make(map[idleCase][]float64)
	for _, one := range idleCases() {
		if err := b.idleOne(ctx, one); err != nil {
			return fmt.Errorf("%d targets: %w", one.targets, err)
		}
	}
	return nil
}

func (b *bench) idleOne(ctx context.Context, of idleCase) (err error) {
	server, err := b.startServer(ctx, source{objects: 1000})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, server.stop()) }()
	var namespaces []string
	for i := range of.targets {
		if i < corpus.Namespaces {
			namespaces = append(namespaces, corpus.Namespace(i))
		} else {
			namespaces = append(namespaces, fmt.Sprintf("empty-%d", i))
		}
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
	events := int((window+time.Second).Seconds()*float64(windows)) * of.rate
	if events > 0 {
		if err := server.play(ctx, events, float64(of.rate)); err != nil {
			return err
		}
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
		share := 100 * float64(to.cpu-from.cpu) / float64(to.at.Sub(from.at))
		b.idleShares[of] = append(b.idleShares[of], share)
		b.say("idle, %d targets, %d events/s: %.2f%% of one core", of.targets, of.rate, share)
	}
	_, _, err = c.settle(ctx, border{}, 1000, int64(events), 0)
	return err
}

package main

import (
	"context"
	"errors"
	"regexp"
)

// step is one case.
type step struct {
	name string
	run  func(ctx context.Context) error
}

// cases runs all that were asked for. One that fails does not end the others.
func (b *bench) cases(ctx context.Context) error {
	only, err := regexp.Compile(b.only)
	if err != nil {
		return err
	}
	var steps []step
	for _, s := range b.saturations() {
		steps = append(steps, step{s.name, func(ctx context.Context) error { return b.saturate(ctx, s) }})
	}
	steps = append(steps,
		step{"sinks", b.everySink},
		step{"postgres", b.backfill},
		step{"restart", b.restart},
		step{"latency", b.latency},
		step{"rates", b.rates},
		step{"pair", b.pair},
		step{"idle", b.idle},
	)
	var failed []error
	for _, s := range steps {
		if !only.MatchString(s.name) {
			continue
		}
		if ctx.Err() != nil {
			return errors.Join(append(failed, ctx.Err())...)
		}
		b.say("%s", s.name)
		if err := s.run(ctx); err != nil {
			b.say("%s failed: %v", s.name, err)
			failed = append(failed, err)
		}
	}
	return errors.Join(failed...)
}

// The names of the cases that rows are made of.
const (
	podsNATS   = "20k pods, core NATS"
	podsNone   = "1k pods, no sink"
	podsStdout = "1k pods, stdout"
	manyPods   = "100k pods, no sink"
)

// saturations are the cases in which clients take what they can.
func (b *bench) saturations() []saturation {
	slow, fast := b.size(4_000), b.size(100_000)
	updates := map[kind]int{informd: fast, floor: fast, baseline: slow}
	everyone := []kind{informd, baseline, floor}
	return []saturation{
		{podsNATS, b.size(20_000), natsSink, everyone, b.times(3), updates},
		{podsNone, b.size(1_000), noSink, everyone, b.times(5), updates},
		{manyPods, b.size(100_000), noSink, []kind{informd, floor}, b.times(3), updates},
		{podsStdout, b.size(1_000), stdoutSink, []kind{informd, baseline}, b.times(3), updates},
	}
}

// size is a number of objects or events, less of them in a quick run.
func (b *bench) size(n int) int {
	if b.quick {
		return max(10, n/100)
	}
	return n
}

// times is how often something is repeated.
func (b *bench) times(n int) int {
	switch {
	case b.rounds > 0:
		return b.rounds
	case b.quick:
		return 1
	default:
		return n
	}
}

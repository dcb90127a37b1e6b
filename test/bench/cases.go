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
		step{"first event", b.firstEvent},
		step{"restart", b.restart},
		step{"latency", b.latency},
		step{"rates", b.rates},
		step{"pair", b.pair},
		step{"idle", b.idle},
		step{"pages", b.pages},
		step{"binary", b.binary},
		step{"control plane", b.controlPlane},
		step{"sink blocked", b.blocked},
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
	podsNATS     = "20k pods, core NATS"
	podsNone     = "1k pods, no sink"
	podsStdout   = "1k pods, stdout"
	manyPods     = "100k pods, no sink"
	manyMetadata = "100k pods, metadata informer"
	// onControlPlane is not at saturation.
	onControlPlane = "real control plane, 300 updates/s, JetStream"
	podsMemory     = "1k pods, memory journal, no sink"
	cachedPods     = "20k pods, informers for reads"
	manyCached     = "100k pods, informer for reads"
)

// saturations are the cases in which clients take what they can.
func (b *bench) saturations() []saturation {
	pods := func(objects int) source { return source{corpus: "pods", objects: b.size(objects)} }
	slow, fast := b.size(4_000), b.size(100_000)
	updates := map[kind]int{
		informd: fast, floor: fast, floorHTTP1: fast, baseline: slow, baselineStripped: slow, baselineMetadata: slow,
	}
	updates[cached], updates[cachedStock] = b.size(20_000), b.size(4_000)
	large := map[kind]int{informd: b.size(1_000), floor: b.size(1_000), floorHTTP1: b.size(1_000), baseline: b.size(200)}
	everyone := []kind{informd, floor, baseline, floorHTTP1, baselineStripped}
	pair := []kind{informd, baseline}
	return []saturation{
		{podsNATS, pods(20_000), natsSink, []kind{informd, baseline, floor}, b.times(3), updates},
		{podsNone, pods(1_000), noSink, everyone, b.times(5), updates},
		{manyPods, pods(100_000), noSink, []kind{informd, floor}, b.times(3), updates},
		{manyMetadata, pods(100_000), noSink, []kind{baselineMetadata}, 1, updates},
		{podsStdout, pods(1_000), stdoutSink, pair, b.times(3), updates},
		{"1k pods, JetStream", pods(1_000), jetStream, pair, b.times(3), updates},
		{"1k pods, webhook", pods(1_000), webhookSink, pair, b.times(3), updates},
		{podsMemory, pods(1_000), noSink, []kind{informdMemory}, b.times(3), map[kind]int{informdMemory: b.size(20_000)}},
		{cachedPods, pods(20_000), noSink, []kind{cached, cachedStock}, b.times(3), updates},
		{manyCached, pods(100_000), noSink, []kind{cached}, b.times(3), updates},
		{"20k custom resources of 1 KB, no sink", source{corpus: "samples", objects: b.size(20_000)}, noSink, []kind{informd, baseline, floor}, b.times(3), updates},
		{"200k custom resources of 1 KB, no sink", source{corpus: "samples", objects: b.size(200_000)}, noSink, []kind{informd}, 1, updates},
		{"12 ConfigMaps of 100 KB to 1 MB, no sink", source{corpus: "configmaps", objects: 12}, noSink, []kind{informd, baseline, floor}, b.times(3), large},
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

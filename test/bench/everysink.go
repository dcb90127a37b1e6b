package main

import (
	"context"
	"errors"
	"fmt"
	"math"
)

// sinkCase is the name of the case of one of all sinks.
func sinkCase(k sinkKind) string { return "every sink, 1k pods: " + string(k) }

// everySink measures informd with one sink after the other, in another order each round.
func (b *bench) everySink(ctx context.Context) (err error) {
	server, err := b.startServer(ctx, source{objects: b.size(1_000)})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, server.stop()) }()
	all := sinkTypes()
	for round := range b.times(3) {
		for i := range all {
			k := all[(i+round)%len(all)].kind
			r, err := b.into(ctx, server, k)
			if err != nil {
				return fmt.Errorf("%s: %w", k, err)
			}
			r.Case, r.Round = sinkCase(k), round
			b.runs = append(b.runs, r)
			b.say("%s, round %d: %.2f us per update, %.0f updates/s", r.Case, round+1, r.Stream.PerEvent(), r.Stream.Rate())
		}
	}
	return nil
}

// into runs informd with a sink that delivers to what is started for it alone.
func (b *bench) into(ctx context.Context, server *server, k sinkKind) (r run, err error) {
	sink, closeSink, err := b.openSink(ctx, k)
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, closeSink()) }()
	return b.once(ctx, informd, setup{server: server, sink: sink, cores: 1}, b.size(20_000))
}

// judgeSinks makes the rows of all sinks.
func (b *bench) judgeSinks() {
	stdout := b.of(sinkCase(stdoutSink), informd, perUpdate)
	for _, t := range sinkTypes() {
		if t.kind == stdoutSink {
			continue
		}
		values := b.of(sinkCase(t.kind), informd, perUpdate)
		b.rows = append(b.rows, row{
			Metric: fmt.Sprintf("CPU per event at saturation, %s : stdout", t.kind), Unit: "x", Required: math.NaN(), Aim: math.NaN(), Values: ratios(values, stdout),
			Absolute: fmt.Sprintf("%s : %s us", number(spreadOf(values).Median), number(spreadOf(stdout).Median)),
		})
	}
}

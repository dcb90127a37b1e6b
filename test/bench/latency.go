package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"time"

	"github.com/informd/informd/test/bench/corpus"
)

const (
	latencyRate    = 1000 // events/s
	latencyWarmup  = 500
	latencyObjects = 1000
)

// latency times events from when the server writes them to when the reader of the
// client's standard output has the line. The hand-over of the pipe is in it, so it is
// a little more than to the sink.
func (b *bench) latency(ctx context.Context) (err error) {
	server, err := b.startServer(ctx, source{objects: latencyObjects, stamp: true})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, server.stop()) }()
	for range b.times(3) {
		for _, k := range []kind{informd, informdAtOnce, baseline} {
			events := b.size(20_000)
			if k == baseline {
				events /= 4 // it falls behind
			}
			took, err := b.latencyOf(ctx, server, k, max(latencyWarmup*2, events))
			if err != nil {
				return err
			}
			slices.Sort(took)
			p50, p99 := quantile(took, 0.5), quantile(took, 0.99)
			if b.latencies == nil {
				b.latencies = make(map[kind][][2]float64)
			}
			b.latencies[k] = append(b.latencies[k], [2]float64{p50, p99})
			b.say("latency at %d events/s: %s: p50 %.3f ms, p99 %.3f ms, most %.3f ms of %d", latencyRate, k, p50, p99, took[len(took)-1], len(took))
		}
	}
	return nil
}

// latencyOf returns the latencies of one run, in milliseconds.
func (b *bench) latencyOf(ctx context.Context, server *server, k kind, events int) (took []float64, err error) {
	read, write, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer read.Close() //nolint:errcheck // nothing is written on this side
	c, err := b.startClient(k, setup{server: server, sink: sinkSpec{kind: stdoutSink}, cores: 1, stdout: write})
	err = errors.Join(err, write.Close())
	if err != nil {
		return nil, err
	}
	defer func() {
		err = errors.Join(err, c.kill())
		c.port.Release()
	}()
	stats, err := server.stats(ctx)
	if err != nil {
		return nil, err
	}
	if err := read.SetReadDeadline(time.Now().Add(patience)); err != nil {
		return nil, err
	}
	lines := bufio.NewReaderSize(read, 1<<20)
	for seen := 0; len(took) < events; {
		line, err := lines.ReadSlice('\n')
		if errors.Is(err, io.EOF) {
			return nil, c.failure()
		}
		if err != nil {
			return nil, fmt.Errorf("%s: after %d objects and %d events: %w", k, seen, len(took), err)
		}
		now := clock()
		sent, revision := stampOf(line)
		switch {
		case sent == 0: // a record about the stream itself
		case revision <= stats.Head:
			if seen++; seen == server.objects {
				// What is running behind the sync has ended when the watch is open.
				if err := b.whenWatching(ctx, server, func() error { return server.play(ctx, events, latencyRate) }); err != nil {
					return nil, err
				}
			}
		default:
			took = append(took, float64(now-sent)/1e6)
		}
	}
	return took[latencyWarmup:], nil
}

// whenWatching waits until the client's watch is open.
func (b *bench) whenWatching(ctx context.Context, server *server, then func() error) error {
	err := eventually(ctx, "the watch is open", 10*time.Millisecond, time.Minute, func() (bool, error) {
		stats, err := server.stats(ctx)
		return stats.Watches > 0, err
	})
	if err != nil {
		return err
	}
	return then()
}

// stampOf finds when an object was sent, and its revision; 0 if it has none.
func stampOf(line []byte) (sent int64, revision uint64) {
	_, after, ok := bytes.Cut(line, []byte(`"`+corpus.SentAnnotation+`":"`))
	if !ok {
		return 0, 0
	}
	digits, _, _ := bytes.Cut(after, []byte(`"`))
	sent, err := strconv.ParseInt(string(digits), 10, 64)
	if err != nil {
		return 0, 0
	}
	_, after, _ = bytes.Cut(line, []byte(`"resourceVersion":"`))
	digits, _, _ = bytes.Cut(after, []byte(`"`))
	revision, _ = strconv.ParseUint(string(digits), 10, 64)
	return sent, revision
}

package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"strings"
	"time"
)

// restartRun is informd with a log that it began with a first list, and went on with.
type restartRun struct {
	Objects int
	// Listed is the CPU time of an object of the first list, in microseconds.
	Listed float64
	// RSS is after the first list, Peak the most during it, in MiB.
	RSS, Peak float64
	// Live is from the start of the second process until the target is live, in seconds; LivePeak is
	// its most memory by then, in MiB.
	Live, LivePeak float64
}

// restartPoll is how often the second process is asked whether it is live.
const restartPoll = 10 * time.Millisecond

// restart stops an informd that has listed many objects, and starts it again on its log.
func (b *bench) restart(ctx context.Context) error {
	for _, objects := range []int{200_000, 1_000_000} {
		if err := b.restartWith(ctx, b.size(objects)); err != nil {
			return fmt.Errorf("%d objects: %w", objects, err)
		}
	}
	return nil
}

func (b *bench) restartWith(ctx context.Context, objects int) (err error) {
	server, err := b.startServer(ctx, source{objects: objects})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, server.stop()) }()
	dir, err := os.MkdirTemp(b.dir, "journal-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	s := setup{server: server, sink: sinkSpec{kind: stdoutSink}, journalDir: dir}
	r := restartRun{Objects: objects}
	first, err := b.startClient(informd, s)
	if err != nil {
		return err
	}
	listed, _, err := first.settle(ctx, border{}, int64(server.objects), 0, server.objects)
	if err == nil {
		r.Listed = listed.PerEvent()
		r.RSS, r.Peak, err = first.memories()
	}
	if err := errors.Join(err, first.end()); err != nil {
		return err
	}
	for range b.times(3) {
		began := time.Now()
		again, err := b.startClient(informd, s)
		if err != nil {
			return err
		}
		err = eventually(ctx, "informd is live", restartPoll, patience, func() (bool, error) { return again.isLive(ctx) })
		r.Live = time.Since(began).Seconds()
		if err == nil {
			_, r.LivePeak, err = again.memories()
		}
		if err := errors.Join(err, again.end()); err != nil {
			return err
		}
		b.restarts = append(b.restarts, r)
		b.say("%d objects: listed with %.1f us of CPU each, RSS %.0f MiB, peak %.0f; live again after %.2f s with a peak of %.0f MiB",
			r.Objects, r.Listed, r.RSS, r.Peak, r.Live, r.LivePeak)
	}
	return nil
}

// memories returns the memory of the process now and at most, in MiB.
func (c *client) memories() (now, most float64, err error) {
	if now, err = c.memory("VmRSS"); err == nil {
		most, err = c.memory("VmHWM")
	}
	return now, most, err
}

// isLive reports whether every target of an informd is live.
func (c *client) isLive(ctx context.Context) (bool, error) {
	select {
	case <-c.exited:
		return false, c.failure()
	default:
	}
	metrics, err := scrape(ctx, c.address)
	if err != nil {
		return false, nil //nolint:nilerr // it does not serve yet
	}
	live := 0.0
	for series, value := range metrics {
		if strings.HasPrefix(series, "informd_target_state{") && strings.Contains(series, `state="live"`) {
			live += value
		}
	}
	return live > 0, nil
}

// ofRestarts returns a figure of the restarts with so many objects.
func (b *bench) ofRestarts(objects int, figure func(restartRun) float64) (values []float64) {
	for _, r := range b.restarts {
		if r.Objects == b.size(objects) {
			values = append(values, figure(r))
		}
	}
	return values
}

// judgeRestarts makes the rows of restarts.
func (b *bench) judgeRestarts() {
	for _, of := range []struct {
		objects               int
		name                  string
		live, livePeak, first float64
	}{{200_000, "200k", 1.5, 100, 100}, {1_000_000, "1M", 6, 350, math.NaN()}} {
		pick := func(figure func(restartRun) float64) []float64 { return b.ofRestarts(of.objects, figure) }
		b.rows = append(b.rows,
			row{Metric: "first list, " + of.name + " Pods: CPU per object", Unit: " us", Required: 30, Aim: math.NaN(), Values: pick(func(r restartRun) float64 { return r.Listed })},
			row{Metric: "RSS, " + of.name + " Pods, stdout", Unit: " MiB", Required: of.first, Aim: math.NaN(), Values: pick(func(r restartRun) float64 { return r.RSS }), Absolute: "peak " + number(spreadOf(pick(func(r restartRun) float64 { return r.Peak })).Median)},
			row{Metric: "restart, " + of.name + " Pods: until live", Unit: " s", Required: of.live, Aim: math.NaN(), Values: pick(func(r restartRun) float64 { return r.Live })},
			row{Metric: "restart, " + of.name + " Pods: peak RSS", Unit: " MiB", Required: of.livePeak, Aim: math.NaN(), Values: pick(func(r restartRun) float64 { return r.LivePeak })},
		)
	}
}

package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"time"
)

// pairRate is in events/s.
const pairRate = 2_000

// pairRun is what a pair costs, beside one informd at the same rate.
type pairRun struct {
	// One, Leader and Follower are the CPU time of the processes for an event, in microseconds.
	One, Leader, Follower float64
	// Shipped is what the follower has read for an event, in bytes; Requests are those of the follower to the API
	// server, for an hour.
	Shipped, Requests float64
}

// pair measures a leader and its follower.
func (b *bench) pair(ctx context.Context) (err error) {
	server, err := b.startServer(ctx, source{objects: b.size(1_000)})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, server.stop()) }()
	for range b.times(3) {
		one, err := b.atRate(ctx, server, informd, pairRate)
		if err != nil {
			return err
		}
		r := pairRun{One: one.CPU}
		if err := b.pairAtRate(ctx, server, &r); err != nil {
			return err
		}
		b.pairRuns = append(b.pairRuns, r)
		b.say("%d events/s: one %.0f us, leader %.0f us, follower %.0f us and %.0f bytes per event; %.0f requests of the follower per hour",
			pairRate, r.One, r.Leader, r.Follower, r.Shipped, r.Requests)
	}
	return nil
}

func (b *bench) pairAtRate(ctx context.Context, server *server, r *pairRun) (err error) {
	s := setup{server: server, sink: sinkSpec{kind: stdoutSink}, lease: fmt.Sprintf("pair-%d", len(b.pairRuns))}
	leader, err := b.startClient(informd, s)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, leader.end()) }()
	if _, _, err := leader.settle(ctx, border{}, int64(server.objects), 0, server.objects); err != nil {
		return err
	}
	follower, err := b.startClient(informd, s)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, follower.end()) }()
	err = eventually(ctx, "the follower is in sync", 100*time.Millisecond, time.Minute, func() (bool, error) {
		metrics, err := scrape(ctx, leader.address)
		return metrics["informd_replica_in_sync_followers"] == 1, err
	})
	if err != nil {
		return err
	}
	before, period := warmUp, rateFor
	if b.quick {
		before, period = time.Second, time.Second
	}
	events := int((before+period).Seconds()+1) * pairRate
	if err := b.whenWatching(ctx, server, func() error { return server.play(ctx, events, pairRate) }); err != nil {
		return err
	}
	if err := pause(ctx, before); err != nil {
		return err
	}
	from, err := samplePair(ctx, server, leader, follower)
	if err == nil {
		err = pause(ctx, period)
	}
	if err != nil {
		return err
	}
	to, err := samplePair(ctx, server, leader, follower)
	if err != nil {
		return err
	}
	done := float64(to.leader.updates - from.leader.updates)
	if done == 0 {
		return errors.New("no event was handled while it was measured")
	}
	r.Leader = float64((to.leader.cpu - from.leader.cpu).Microseconds()) / done
	r.Follower = float64((to.follower - from.follower).Microseconds()) / done
	r.Shipped = float64(to.read-from.read) / done
	r.Requests = float64(to.requests-from.requests) / period.Hours()
	return nil
}

// pairSample is what a pair has done and used by now.
type pairSample struct {
	leader   sample
	follower time.Duration
	read     int64
	requests int64
}

func samplePair(ctx context.Context, server *server, leader, follower *client) (s pairSample, err error) {
	if s.leader, err = leader.sample(ctx); err != nil {
		return s, err
	}
	at, err := follower.border(0)
	if err != nil {
		return s, err
	}
	s.follower = at.cpu
	stats, err := server.stats(ctx)
	if err != nil {
		return s, err
	}
	s.requests = stats.LeaseReads // the leader writes
	s.read, err = follower.read()
	return s, err
}

// read returns how many bytes the process has read, from sockets as well.
func (c *child) read() (n int64, err error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/io", c.pid()))
	if err == nil {
		_, err = fmt.Sscanf(string(text), "rchar: %d", &n)
	}
	return n, err
}

// judgePair makes the rows of a pair.
func (b *bench) judgePair() {
	figure := func(of func(pairRun) float64) (values []float64) {
		for _, r := range b.pairRuns {
			values = append(values, of(r))
		}
		return values
	}
	one := figure(func(r pairRun) float64 { return r.One })
	leader := figure(func(r pairRun) float64 { return r.Leader })
	follower := figure(func(r pairRun) float64 { return r.Follower })
	median := func(values []float64) string { return number(spreadOf(values).Median) }
	free := math.NaN()
	b.rows = append(b.rows,
		row{
			Metric: "CPU per event at 2,000 events/s, leader of a pair : one informd", Unit: "x", Required: free, Aim: free, Values: ratios(leader, one),
			Absolute: fmt.Sprintf("%s : %s us", median(leader), median(one)),
		},
		row{
			Metric: "CPU per event at 2,000 events/s, follower : one informd", Unit: "x", Required: free, Aim: free, Values: ratios(follower, one),
			Absolute: fmt.Sprintf("%s : %s us", median(follower), median(one)),
		},
		row{
			Metric: "bytes shipped to a follower per event", Unit: "", Required: free, Aim: free, Values: figure(func(r pairRun) float64 { return r.Shipped }),
		},
		row{
			Metric: "API requests of a follower per hour", Unit: "", Required: free, Aim: free, Values: figure(func(r pairRun) float64 { return r.Requests }),
		},
	)
}

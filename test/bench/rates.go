package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
)

// eventRates are those that clusters have, events/s.
func eventRates() []int { return []int{20, 200, 2_000} }

// rateRun is one client at one rate.
type rateRun struct {
	Client kind
	Rate   int
	// CPU is in microseconds, Switches are context switches, both for an event.
	CPU, Switches float64
}

// rates measures clients that have more time than they need: an event costs its wake-ups.
func (b *bench) rates(ctx context.Context) (err error) {
	server, err := b.startServer(ctx, source{objects: b.size(1_000)})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, server.stop()) }()
	for round := range b.times(3) {
		clients := []kind{informd, informdMemory, floor, baseline}
		for i := range clients {
			k := clients[(i+round)%len(clients)]
			for _, rate := range eventRates() {
				r, err := b.atRate(ctx, server, k, rate)
				if err != nil {
					return fmt.Errorf("%s at %d events/s: %w", k, rate, err)
				}
				b.rateRuns = append(b.rateRuns, r)
				b.say("%d events/s: %s: %.0f us and %.1f context switches per event, %.2f%% of one core", rate, k, r.CPU, r.Switches, r.CPU*float64(rate)/1e4)
			}
		}
	}
	return nil
}

const (
	// rateFor is how long events at a rate are measured.
	rateFor = 10 * time.Second
	// warmUp is how long events come before: buffers grow meanwhile.
	warmUp = 12 * time.Second
)

// atRate starts a client, lets events come, and ends it.
func (b *bench) atRate(ctx context.Context, server *server, k kind, rate int) (r rateRun, err error) {
	c, err := b.startClient(k, setup{server: server, sink: sinkSpec{kind: stdoutSink}})
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, c.end()) }()
	_, h, err := c.settle(ctx, border{}, int64(server.objects), 0, server.objects)
	if err != nil {
		return r, err
	}
	before, period := warmUp, rateFor
	if b.quick {
		before, period = time.Second, time.Second
	}
	events := int((before+period).Seconds()+1) * rate
	if err := b.whenWatching(ctx, server, func() error { return server.play(ctx, events, float64(rate)) }); err != nil {
		return r, err
	}
	if err := pause(ctx, before); err != nil {
		return r, err
	}
	from, err := c.sample(ctx)
	if err != nil {
		return r, err
	}
	if err := pause(ctx, period); err != nil {
		return r, err
	}
	to, err := c.sample(ctx)
	if err != nil {
		return r, err
	}
	if _, _, err := c.settle(ctx, border{}, int64(server.objects), h.updates+int64(events), events); err != nil {
		return r, err
	}
	// A client that is behind handles fewer events than the server has sent.
	done := float64(to.updates - from.updates)
	if done == 0 {
		return r, errors.New("no event was handled while it was measured")
	}
	return rateRun{
		Client: k, Rate: rate, CPU: float64((to.cpu - from.cpu).Microseconds()) / done, Switches: (to.switches - from.switches) / done,
	}, nil
}

func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// sample is what a client has done and used by now.
type sample struct {
	updates  int64
	cpu      time.Duration
	switches float64
}

func (c *client) sample(ctx context.Context) (s sample, err error) {
	h, err := c.count(ctx)
	if err != nil {
		return s, err
	}
	at, err := c.border(0)
	if err != nil {
		return s, err
	}
	switches, err := c.switches()
	return sample{h.updates, at.cpu, switches}, err
}

// switches returns how often the threads of the client were taken off a processor.
func (c *child) switches() (float64, error) {
	dir := fmt.Sprintf("/proc/%d/task", c.pid())
	threads, err := os.ReadDir(dir)
	if err != nil {
		return 0, err
	}
	total := 0.0
	for _, thread := range threads {
		text, err := os.ReadFile(dir + "/" + thread.Name() + "/status")
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err != nil {
			return 0, err
		}
		for line := range strings.Lines(string(text)) {
			if name, value, ok := strings.Cut(line, ":"); ok && strings.HasSuffix(name, "_ctxt_switches") {
				n, err := strconv.ParseFloat(strings.TrimSpace(value), 64)
				if err != nil {
					return 0, err
				}
				total += n
			}
		}
	}
	return total, nil
}

// atRates returns a figure of the runs of a client at a rate.
func (b *bench) atRates(k kind, rate int, figure func(rateRun) float64) (values []float64) {
	for _, r := range b.rateRuns {
		if r.Client == k && r.Rate == rate {
			values = append(values, figure(r))
		}
	}
	return values
}

package main

import (
	"context"
	"errors"
	"fmt"
)

// run is one client in one round of a case.
type run struct {
	Case   string
	Client kind
	Round  int
	// Objects are how many there are.
	Objects int
	// Sync is from the start of the process to the last object, Stream from the first
	// update to the last.
	Sync, Stream phase
	// Server is the CPU time of the replay server for an update, in microseconds. If it
	// is more than the client's, the client was not at saturation.
	Server float64
	// Delivered are all updates that it handled, those of a short stream before the
	// measured one included.
	DeliveredObjects, DeliveredUpdates int64
	// RSS after the sync and after the stream, and its peak, in MiB.
	SyncRSS, RSS, Peak float64
}

// saturation is a case: clients take all objects and then updates as fast as they can.
type saturation struct {
	name    string
	objects int
	sink    sinkKind
	clients []kind
	rounds  int
	// updates are how many, by client: the slow ones are given fewer.
	updates map[kind]int
}

func (b *bench) saturate(ctx context.Context, s saturation) (err error) {
	server, err := b.startServer(ctx, source{objects: s.objects})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, server.stop()) }()
	sink, closeSink, err := b.openSink(ctx, s.sink)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, closeSink()) }()
	for round := range s.rounds {
		for i := range s.clients {
			k := s.clients[(i+round)%len(s.clients)]
			r, err := b.once(ctx, k, setup{server: server, sink: sink, cores: 1}, s.updates[k])
			if err != nil {
				return fmt.Errorf("%s: %w", s.name, err)
			}
			r.Case, r.Round = s.name, round
			b.runs = append(b.runs, r)
			b.say("%s, round %d: %s: %.2f us per object, %.2f us and %.2f allocations per update, %.0f updates/s, RSS %.1f MiB, peak %.1f; the server %.1f us",
				s.name, round+1, k, r.Sync.PerEvent(), r.Stream.PerEvent(), r.Stream.Mallocs/float64(max(1, r.Stream.Events)), r.Stream.Rate(), r.RSS, r.Peak, r.Server)
		}
	}
	return nil
}

// once starts a client, lets it take all objects and then updates, and ends it.
func (b *bench) once(ctx context.Context, k kind, s setup, updates int) (r run, err error) {
	c, err := b.startClient(k, s)
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, c.end()) }()
	r = run{Client: k, Objects: s.server.objects}
	beginning, err := c.border(0)
	if err != nil {
		return r, err
	}
	beginning.cpu = 0
	var h handled
	if r.Sync, h, err = c.settle(ctx, beginning, int64(r.Objects), 0, r.Objects); err != nil {
		return r, err
	}
	if r.SyncRSS, err = c.memory("VmRSS"); err != nil {
		return r, err
	}
	// A short stream first: connections, buffers and pools are what they will be.
	for _, n := range []int{warmup(updates), updates} {
		from, err := c.border(h.mallocs)
		if err != nil {
			return r, err
		}
		before, err := s.server.cpu()
		if err != nil {
			return r, err
		}
		if err := s.server.play(ctx, n, 0); err != nil {
			return r, err
		}
		if r.Stream, h, err = c.settle(ctx, from, int64(r.Objects), h.updates+int64(n), n); err != nil {
			return r, err
		}
		after, err := s.server.cpu()
		if err != nil {
			return r, err
		}
		r.Server = phase{Events: n, CPU: after - before}.PerEvent()
	}
	r.DeliveredObjects, r.DeliveredUpdates = h.objects, h.updates
	if r.RSS, err = c.memory("VmRSS"); err != nil {
		return r, err
	}
	r.Peak, err = c.memory("VmHWM")
	return r, err
}

// warmup is how many updates come before those that are measured.
func warmup(updates int) int { return max(1, updates/20) }

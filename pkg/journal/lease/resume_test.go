package lease_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/informd/informd/pkg/journal/lease"
)

// A refresh that the server loses in an election does not make the lease expire: its holder
// need not wait for the streams of the journal, which have elections as well.
func TestElectionExpiresNothing(t *testing.T) {
	t.Parallel()
	const ttl = 6 * time.Second // the client sends a publish without a stream again for 0.5 s
	s, _ := runServer(t, t.TempDir(), server.RANDOM_PORT)
	p := newProxy(t, s.Addr().String())
	o := options("first", ttl)
	o.Resume = func(ctx context.Context) error {
		select {
		case <-ctx.Done():
		case <-time.After(deadline):
		}
		return errors.New("no answer")
	}
	l := acquire(t, connect(t, p.url()), o)
	p.lose(3)
	await(t, "the publishes to be lost", p.lost)
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(2 * ttl); time.Now().Before(end); <-tick.C {
		if err := l.Check(); err != nil {
			t.Fatal(err)
		}
	}
}

// A holder that cannot find out whether another process had its expired lease leaves the
// lease to others.
func TestResumeFails(t *testing.T) {
	t.Parallel()
	s, _ := runServer(t, t.TempDir(), server.RANDOM_PORT)
	p := newProxy(t, s.Addr().String())
	o := options("first", ttl)
	o.Resume = func(context.Context) error { return errors.New("no answer") }
	first := acquire(t, connect(t, p.url()), o)
	p.stall()
	probe := connect(t, s.ClientURL())
	await(t, "the lease to expire", func() bool { return !holds(t, probe, o) })
	p.mend()
	await(t, "the first to take it again", func() bool { return holds(t, probe, o) })
	second := within(t, "the second to take over", contend(t, connect(t, s.ClientURL()), options("second", ttl)))
	defer release(t, second)
	within(t, "the first to know", first.Lost())
	if err := first.Check(); !errors.Is(err, lease.ErrLost) {
		t.Errorf("the first has %v", err)
	}
	if err := second.Check(); err != nil {
		t.Error(err)
	}
}

// The lease is held again once its holder can find out that no other process had it.
func TestResumeAfterARest(t *testing.T) {
	t.Parallel()
	s, _ := runServer(t, t.TempDir(), server.RANDOM_PORT)
	p := newProxy(t, s.Addr().String())
	o := options("first", ttl)
	probe := connect(t, s.ClientURL())
	works := make(chan struct{})
	o.Resume = func(context.Context) error {
		select {
		case <-works:
			return nil
		default:
			return errors.New("no answer")
		}
	}
	first := acquire(t, connect(t, p.url()), o)
	p.stall()
	await(t, "the lease to expire", func() bool { return !holds(t, probe, o) })
	p.mend()
	await(t, "the first to take it again", func() bool { return holds(t, probe, o) })
	await(t, "the first to give it back", func() bool { return !holds(t, probe, o) })
	close(works)
	if err := first.Wait(timeout(t)); err != nil {
		t.Fatal(err)
	}
}

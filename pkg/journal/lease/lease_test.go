package lease_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/netip"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/informd/informd/pkg/journal/lease"
)

// ttl is short for the tests' sake and long enough for a busy machine.
const ttl = 2 * time.Second

// longTTL is one that no test waits for.
const longTTL = 10 * time.Minute

func TestTakeoverAfterCrash(t *testing.T) {
	s, _ := runServer(t, t.TempDir(), server.RANDOM_PORT)
	conn := connect(t, s.ClientURL())
	first := acquire(t, conn, options("first", ttl))
	if err := first.Check(); err != nil {
		t.Fatal(err)
	}
	taken := contend(t, connect(t, s.ClientURL()), options("second", ttl))
	conn.Close() // all that a crash shows to the others
	crashed := time.Now()
	second := within(t, "the second to take over", taken)
	t.Cleanup(func() { release(t, second) })
	if took := time.Since(crashed); took > 4*ttl {
		t.Errorf("the second took over after %s, with a TTL of %s", took, ttl)
	} else {
		t.Logf("taken over after %s, with a TTL of %s", took, ttl)
	}
	if first.Check() == nil {
		t.Error("two hold the lease")
	}
	within(t, "the first to know", first.Lost())
	if err := second.Check(); err != nil {
		t.Error(err)
	}
}

func TestRelease(t *testing.T) {
	s, _ := runServer(t, t.TempDir(), server.RANDOM_PORT)
	var log bytes.Buffer
	o := options("second", longTTL)
	o.Logger = slog.New(slog.NewTextHandler(&log, nil))
	first := acquire(t, connect(t, s.ClientURL()), options("first", longTTL))
	taken := contend(t, connect(t, s.ClientURL()), o)
	if err := first.Release(timeout(t)); err != nil {
		t.Fatal(err)
	}
	if !errors.Is(first.Check(), lease.ErrLost) {
		t.Error("a released lease is held")
	}
	within(t, "the first to know", first.Lost())
	second := within(t, "the second to take over", taken)
	defer release(t, second)
	if err := second.Check(); err != nil {
		t.Error(err)
	}
	if err := first.Release(timeout(t)); err != nil {
		t.Errorf("the second release: %v", err)
	}
	if err := second.Check(); err != nil {
		t.Errorf("the first's second release took the lease away: %v", err)
	}
	if n := strings.Count(log.String(), "holder=first"); n != 1 {
		t.Errorf("the holder was logged %d times:\n%s", n, log.String())
	}
}

// A lease is refreshed for as long as it is wanted.
func TestRefresh(t *testing.T) {
	t.Parallel()
	const ttl = 8 * time.Second // a busy machine refreshes late
	s, _ := runServer(t, t.TempDir(), server.RANDOM_PORT)
	l := acquire(t, connect(t, s.ClientURL()), options("first", ttl))
	select {
	case <-l.Lost():
		t.Error("the lease was lost")
	case <-time.After(ttl + ttl/2): // without a refresh the lease expires before
	}
	if err := l.Check(); err != nil {
		t.Error(err)
	}
}

func TestConnectionCut(t *testing.T) {
	tests := map[string]func(p *proxy){
		"silent": (*proxy).stall,
		"loud": func(p *proxy) {
			p.stall()
			p.reset()
		},
	}
	for name, cut := range tests {
		t.Run(name, func(t *testing.T) {
			s, _ := runServer(t, t.TempDir(), server.RANDOM_PORT)
			p := newProxy(t, s.Addr().String())
			first := acquire(t, connect(t, p.url()), options("first", ttl))
			taken := contend(t, connect(t, s.ClientURL()), options("second", ttl))
			cut(p)
			second := within(t, "the second to take over", taken)
			defer release(t, second)
			if first.Check() == nil {
				t.Error("two hold the lease")
			}
			p.mend()
			within(t, "the first to know", first.Lost())
			if first.Check() == nil {
				t.Error("a lost lease came back")
			}
			if err := second.Check(); err != nil {
				t.Error(err)
			}
		})
	}
}

// A connection that comes back in time costs nothing, though the answer to a
// refresh was lost with it.
func TestShortCut(t *testing.T) {
	t.Parallel()
	const ttl = 8 * time.Second // a connection of a busy machine comes back late
	s, _ := runServer(t, t.TempDir(), server.RANDOM_PORT)
	p := newProxy(t, s.Addr().String())
	l := acquire(t, connect(t, p.url()), options("first", ttl))
	ticker := time.NewTicker(ttl / 32)
	defer ticker.Stop()
	for range 48 { // longer than the lease lasts without a refresh
		p.reset()
		select {
		case <-l.Lost():
			t.Fatal("the lease was lost")
		case <-ticker.C:
		}
	}
	if err := l.Wait(timeout(t)); err != nil {
		t.Error(err)
	}
}

// A restart of the server neither takes the lease away nor gives it to two.
func TestServerRestart(t *testing.T) {
	dir := t.TempDir()
	s, stop := runServer(t, dir, server.RANDOM_PORT)
	url := s.ClientURL()
	address, err := netip.ParseAddrPort(s.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	l := acquire(t, connect(t, url), options("first", longTTL))
	taken := contend(t, connect(t, url), options("second", longTTL))
	stop()
	runServer(t, dir, int(address.Port()))
	select {
	case second := <-taken:
		release(t, second)
		t.Fatal("the restart gave the lease to the second")
	case <-l.Lost():
		t.Fatal("the restart took the lease away")
	case <-time.After(time.Second):
	}
	if err := l.Release(timeout(t)); err != nil {
		t.Errorf("release after the restart: %v", err)
	}
	release(t, within(t, "the second to take over", taken))
}

func TestBadBucket(t *testing.T) {
	s, _ := runServer(t, t.TempDir(), server.RANDOM_PORT)
	conn := connect(t, s.ClientURL())
	js, err := jetstream.New(conn)
	if err != nil {
		t.Fatal(err)
	}
	tests := map[string]struct {
		bucket jetstream.KeyValueConfig
		want   string
	}{
		"for ever":  {jetstream.KeyValueConfig{Bucket: "FOREVER"}, "do not expire"},
		"in memory": {jetstream.KeyValueConfig{Bucket: "MEMORY", TTL: ttl, Storage: jetstream.MemoryStorage}, "storage is memory"},
		"bad name":  {jetstream.KeyValueConfig{Bucket: "a.b"}, "invalid bucket name"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if name != "bad name" {
				if _, err := js.CreateKeyValue(timeout(t), test.bucket); err != nil {
					t.Fatal(err)
				}
			}
			o := options("first", ttl)
			o.Bucket = test.bucket.Bucket
			l, err := lease.Acquire(timeout(t), conn, o)
			if err == nil {
				release(t, l)
				t.Fatal("it was acquired")
			}
			if !strings.Contains(err.Error(), test.want) || !strings.Contains(err.Error(), o.Bucket) {
				t.Errorf("%q does not say %q of %s", err, test.want, o.Bucket)
			}
		})
	}
}

// TestServerWithoutJetStream: the log names the ways out, and Acquire waits for JetStream.
func TestServerWithoutJetStream(t *testing.T) {
	s, err := server.NewServer(&server.Options{Host: "127.0.0.1", Port: server.RANDOM_PORT, NoSigs: true, NoLog: true})
	if err != nil {
		t.Fatal(err)
	}
	s.Start()
	t.Cleanup(s.Shutdown)
	ctx, cancel := context.WithCancel(timeout(t))
	o := options("first", ttl)
	o.Logger = slog.New(handler(func(r slog.Record) {
		r.Attrs(func(a slog.Attr) bool {
			if strings.Contains(a.Value.String(), "no JetStream") && strings.Contains(a.Value.String(), "journal.type: embedded") {
				cancel()
			}
			return true
		})
	}))
	if _, err := lease.Acquire(ctx, connect(t, s.ClientURL()), o); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, and no log line with the ways out", err)
	}
}

// handler calls a function for each log record.
type handler func(slog.Record)

func (handler) Enabled(context.Context, slog.Level) bool { return true }

func (h handler) Handle(_ context.Context, r slog.Record) error {
	h(r)
	return nil
}

func (h handler) WithAttrs([]slog.Attr) slog.Handler { return h }

func (h handler) WithGroup(string) slog.Handler { return h }

// A bucket's own time to live counts: it is what the server goes by.
func TestOtherTTL(t *testing.T) {
	s, _ := runServer(t, t.TempDir(), server.RANDOM_PORT)
	release(t, acquire(t, connect(t, s.ClientURL()), options("creator", ttl))) // the bucket stays
	conn := connect(t, s.ClientURL())
	first := acquire(t, conn, options("first", longTTL))
	conn.Close()
	within(t, "the first to lose what the server lets expire", first.Lost())
	release(t, acquire(t, connect(t, s.ClientURL()), options("second", longTTL)))
}

func TestAcquireCancelled(t *testing.T) {
	s, _ := runServer(t, t.TempDir(), server.RANDOM_PORT)
	acquire(t, connect(t, s.ClientURL()), options("first", longTTL))
	ctx, cancel := context.WithCancel(timeout(t))
	o := options("second", longTTL)
	o.Waiting = func(holder string) {
		if holder != "first" {
			t.Errorf("waiting for %q", holder)
		}
		cancel()
	}
	if _, err := lease.Acquire(ctx, connect(t, s.ClientURL()), o); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

// holderURL tells the test's own binary to hold the lease on that server.
const holderURL = "INFORMD_TEST_HOLDER_URL"

// holdAndTell answers each line of its input with whether the lease is held.
func holdAndTell(url string) error {
	conn, err := dial(url)
	if err != nil {
		return err
	}
	l, err := lease.Acquire(context.Background(), conn, options("zombie", ttl))
	if err != nil {
		return err
	}
	fmt.Fprintln(os.Stdout, "held")
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		fmt.Fprintln(os.Stdout, l.Check())
	}
	return nil
}

// A process that was frozen for longer than the lease lasts knows it when it
// wakes up, before it has heard of anybody.
func TestFrozen(t *testing.T) {
	s, _ := runServer(t, t.TempDir(), server.RANDOM_PORT)
	child := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^$")
	child.Env = append(os.Environ(), holderURL+"="+s.ClientURL())
	in, err := child.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := child.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	answers := bufio.NewScanner(out)
	ask := func(want string) {
		t.Helper()
		if !answers.Scan() || answers.Text() != want {
			t.Errorf("the other process says %q, want %q", answers.Text(), want)
		}
	}
	ask("held")
	fmt.Fprintln(in, "?")
	ask("<nil>")
	if err := child.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	second := acquire(t, connect(t, s.ClientURL()), options("second", ttl))
	fmt.Fprintln(in, "?") // waits for the process, and is the first that it does
	if err := child.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	if !answers.Scan() || answers.Text() != lease.ErrPaused.Error() && answers.Text() != lease.ErrLost.Error() {
		t.Errorf("the other process says %q when it wakes up", answers.Text())
	}
	if err := second.Check(); err != nil {
		t.Errorf("the zombie took the lease away: %v", err)
	}
	if err := errors.Join(in.Close(), child.Wait()); err != nil {
		t.Error(err)
	}
}

// tenure is the time in which somebody was sure to hold the lease.
type tenure struct {
	holder   string
	from, to time.Time
}

// Whatever happens to the connections, no two ever hold the lease at once, and
// somebody gets it.
func TestNeverTwo(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	const contenders, length, ttl = 3, 20 * time.Second, time.Second
	s, _ := runServer(t, t.TempDir(), server.RANDOM_PORT)
	ctx, cancel := context.WithTimeout(t.Context(), length)
	defer cancel()

	var mu sync.Mutex
	var tenures []tenure
	var running sync.WaitGroup
	var proxies []*proxy
	for n := range contenders {
		p := newProxy(t, s.Addr().String())
		conn := connect(t, p.url())
		proxies = append(proxies, p)
		holder := fmt.Sprint("contender ", n)
		running.Go(func() {
			for ctx.Err() == nil {
				got := hold(ctx, t, conn, options(holder, ttl))
				mu.Lock()
				tenures = append(tenures, got...)
				mu.Unlock()
			}
		})
	}
	harm := time.NewTicker(100 * time.Millisecond)
	defer harm.Stop()
	for ctx.Err() == nil {
		<-harm.C
		switch p := proxies[random.IntN(contenders)]; random.IntN(6) {
		case 0:
			p.stall()
		case 1:
			p.reset()
		default:
			p.mend()
		}
	}
	for _, p := range proxies {
		p.mend()
	}
	running.Wait()

	slices.SortFunc(tenures, func(a, b tenure) int { return a.from.Compare(b.from) })
	for n := 1; n < len(tenures); n++ {
		if before, after := tenures[n-1], tenures[n]; after.from.Before(before.to) {
			t.Errorf("%s held it until %s, and %s from %s", before.holder, before.to, after.holder, after.from)
		}
	}
	if len(tenures) < 3 {
		t.Errorf("the lease was held %d times in %s", len(tenures), length)
	}
	t.Logf("held %d times", len(tenures))
}

// hold acquires the lease and keeps it until it is lost, or gives it up after a
// while. The times are taken so that a tenure is not longer than it was.
func hold(ctx context.Context, t *testing.T, conn *nats.Conn, o lease.Options) []tenure {
	l, err := lease.Acquire(ctx, conn, o)
	if err != nil {
		return nil
	}
	defer release(t, l)
	got := tenure{holder: o.Holder}
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(time.Duration(rand.IntN(3000)) * time.Millisecond); time.Now().Before(end); <-tick.C {
		now := time.Now()
		if l.Check() != nil {
			break
		}
		if got.from.IsZero() {
			got.from = time.Now()
		}
		got.to = now
	}
	if got.from.IsZero() || got.to.Before(got.from) {
		return nil
	}
	return []tenure{got}
}

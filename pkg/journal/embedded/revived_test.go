package embedded_test

import (
	"context"
	"encoding/binary"
	"fmt"
	"maps"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/informd/informd/pkg/journal/embedded"
)

// contents returns the subjects of all messages that the stream can deliver, by sequence.
func contents(t *testing.T, s *embedded.Server) map[uint64]string {
	t.Helper()
	st := create(t, s)
	consumer, err := st.OrderedConsumer(timeout(t), jetstream.OrderedConsumerConfig{HeadersOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	found := make(map[uint64]string)
	for want := st.CachedInfo().State.Msgs; uint64(len(found)) < want; {
		m, err := consumer.Next(jetstream.FetchMaxWait(deadline))
		if err != nil {
			t.Fatalf("%d of %d messages: %v", len(found), want, err)
		}
		metadata, err := m.Metadata()
		if err != nil {
			t.Fatal(err)
		}
		found[metadata.Sequence.Stream] = m.Subject()
	}
	return found
}

// say publishes a message to a subject and returns its sequence.
func say(t *testing.T, s *embedded.Server, subject string, size int) uint64 {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), deadline)
	defer cancel()
	ack, err := js(t, s.Conn()).Publish(ctx, subject, make([]byte, size))
	if err != nil {
		t.Fatalf("publish to %s: %v", subject, err)
	}
	return ack.Sequence
}

// purge removes the messages of a subject below a sequence, all if that is 0.
func purge(t *testing.T, st jetstream.Stream, subject string, below uint64) {
	t.Helper()
	if err := st.Purge(timeout(t), jetstream.WithPurgeSubject(subject), jetstream.WithPurgeSequence(below)); err != nil {
		t.Fatal(err)
	}
}

// busy publishes to some subjects at random, and purges them as the journal does.
func busy(t *testing.T, s *embedded.Server, random *rand.Rand, messages, size int, purges bool) {
	t.Helper()
	st := create(t, s)
	for range messages {
		subject := fmt.Sprint("k8s.", random.IntN(6))
		sequence := say(t, s, subject, random.IntN(size))
		switch n := random.IntN(30); {
		case n == 0 && purges:
			purge(t, st, subject, 0)
		case n == 1 && purges:
			purge(t, st, subject, sequence)
		}
	}
}

// What was superseded before the rest of its subject was purged is not there again after
// a crash, and not after the next one: neither if the purge was just before it, nor if it
// was so long ago that the blocks of what was purged are gone.
func TestSupersededStayAway(t *testing.T) {
	tests := map[string]func(t *testing.T, dir string, random *rand.Rand) *embedded.Server{
		"purged just now": func(t *testing.T, dir string, random *rand.Rand) *embedded.Server {
			s := start(t, config(dir))
			busy(t, s, random, 300, 1<<10, true)
			return s
		},
		"purged long ago": func(t *testing.T, dir string, random *rand.Rand) *embedded.Server {
			s := start(t, config(dir))
			busy(t, s, random, 250, 200<<10, true) // a hundred fill a block
			stop(t, s)                             // the server writes its index, as it does every few minutes
			s = start(t, config(dir))
			busy(t, s, random, 50, 200<<10, false)
			return s
		},
	}
	for name, run := range tests {
		for seed := range uint64(3) {
			t.Run(fmt.Sprintf("%s, seed %d", name, seed), func(t *testing.T) {
				random := rand.New(rand.NewPCG(seed, 1))
				dir := t.TempDir()
				for range 2 {
					s := run(t, dir, random)
					for range 2 {
						before, killed := contents(t, s), frozen(t, dir)
						stop(t, s)
						dir = killed
						s = start(t, config(dir))
						if s.Damaged() {
							t.Errorf("taken for damage: %v", s.Damage())
						}
						if found := contents(t, s); !maps.Equal(found, before) {
							t.Fatalf("after the crash there is\n%v\nand before there was\n%v", found, before)
						}
						say(t, s, "k8s.next", 10)
					}
					stop(t, s)
				}
			})
		}
	}
}

// noIndex has the server of a directory fail to write the index of the stream.
func noIndex(t *testing.T, dir string) {
	t.Helper()
	index := filepath.Join(messageDir(dir), "index.db")
	remove(t, index)
	if err := os.Mkdir(index, 0o700); err != nil {
		t.Fatal(err)
	}
}

// A server that could not write its index when it was stopped leaves files that the next start
// inspects: superseded messages stay away.
func TestSupersededStayAwayWithoutIndex(t *testing.T) {
	dir := t.TempDir()
	s := start(t, config(dir))
	busy(t, s, rand.New(rand.NewPCG(1, 1)), 300, 1<<10, true)
	before := contents(t, s)
	noIndex(t, dir)
	stop(t, s)
	if stoppedCleanly(t, dir) {
		t.Error("the ledger says that the server was stopped in order")
	}
	after := start(t, config(dir))
	if after.Damaged() {
		t.Errorf("taken for damage: %v", after.Damage())
	}
	if found := contents(t, after); !maps.Equal(found, before) {
		t.Errorf("after the restart there is\n%v\nand before there was\n%v", found, before)
	}
}

// The same holds if the guard restarts the server below a running informd.
func TestSupersededStayAwayAfterRestart(t *testing.T) {
	dir := t.TempDir()
	s := start(t, config(dir))
	busy(t, s, rand.New(rand.NewPCG(1, 1)), 300, 1<<10, true)
	before := contents(t, s)
	noIndex(t, dir)
	if err := s.StopJetStream(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the server to be restarted", func() bool {
		ok, _ := s.State()
		return ok && s.Conn().IsConnected() && s.Conn().Stats().Reconnects > 0
	})
	if s.Damaged() || s.Stuck() {
		t.Errorf("taken for damage: %v", s.Damage())
	}
	if found := contents(t, s); !maps.Equal(found, before) {
		t.Errorf("after the restart there is\n%v\nand before there was\n%v", found, before)
	}
}

// A start that fails after its look at the store, which then ends with an unfinished
// write, leaves nothing that the next one takes for damage.
func TestInspectedTwice(t *testing.T) {
	dir := t.TempDir()
	s := start(t, config(dir))
	busy(t, s, rand.New(rand.NewPCG(1, 1)), 300, 1<<10, true)
	before, killed := contents(t, s), frozen(t, dir)
	stop(t, s)
	all := blocks(t, killed)
	raw, err := os.ReadFile(all[len(all)-1])
	if err != nil {
		t.Fatal(err)
	}
	torn := raw[:binary.LittleEndian.Uint32(raw)&^(1<<31)-3]
	if err := os.WriteFile(all[len(all)-1], append(raw, torn...), 0o600); err != nil {
		t.Fatal(err)
	}

	var address net.ListenConfig
	taken, err := address.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = taken.Close() }()
	c := config(killed)
	c.Listen = taken.Addr().String()
	if _, err := embedded.Start(timeout(t), c); err == nil {
		t.Fatal("it listens where another one does")
	}
	if n := len(blocks(t, killed)); n != len(all)+1 {
		t.Fatalf("%d blocks and then %d: the look wrote nothing", len(all), n)
	}
	after := start(t, config(killed))
	if after.Damaged() {
		t.Errorf("taken for damage: %v", after.Damage())
	}
	if found := contents(t, after); !maps.Equal(found, before) {
		t.Errorf("after the crash there is\n%v\nand before there was\n%v", found, before)
	}
}

// A server that brings superseded messages back, and compacts their block as it removes
// those that were purged, never ends looking for the first of them once their subject is
// full again.
func TestFullSubjectAfterCrash(t *testing.T) {
	const fillers = 60
	filler := func(n int) string { return fmt.Sprint("k8s.filler.", n%fillers) }
	dir := t.TempDir()
	s := start(t, config(dir))
	st := create(t, s)
	for n := range 14 * fillers {
		say(t, s, filler(n), 8<<10)
	}
	for range 20 {
		say(t, s, "k8s.subject", 8<<10) // the last ones of the block
	}
	say(t, s, "k8s.large", 2<<20)
	if n := len(blocks(t, dir)); n != 2 {
		t.Fatalf("%d blocks, want 2", n)
	}
	purge(t, st, "k8s.subject", 0)
	for n := 1; n < fillers; n++ {
		purge(t, st, filler(n), 0)
	}
	killed := frozen(t, dir)
	stop(t, s)

	after := start(t, config(killed))
	for range 40 {
		say(t, after, "k8s.subject", 10)
	}
	if n := len(contents(t, after)); n != 14+1+16 {
		t.Errorf("%d messages, want those of one filler, the large one, and 16", n)
	}
}

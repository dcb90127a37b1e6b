package embedded_test

import (
	"bufio"
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/informd/informd/pkg/journal/embedded"
)

// writerDir tells the test's own binary to append to the journal in that directory
// until it is killed.
const writerDir = "INFORMD_TEST_WRITER_DIR"

// appendForever prints the number of each message after its acknowledgement.
func appendForever(dir string) error {
	ctx := context.Background()
	s, err := embedded.Start(ctx, embedded.Config{Dir: dir, MaxBytes: 1 << 30, Stream: stream, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		return err
	}
	j, err := jetstream.New(s.Conn())
	if err != nil {
		return err
	}
	if _, err := j.CreateOrUpdateStream(ctx, jetstream.StreamConfig{Name: stream, Subjects: []string{"k8s.>"}, MaxMsgsPerSubject: 16, Discard: jetstream.DiscardNew, MaxBytes: s.MaxBytes(), AllowDirect: true, Duplicates: 1e9}); err != nil {
		return err
	}
	type numbered struct {
		n   int
		ack jetstream.PubAckFuture
	}
	sent := make(chan numbered, 200)
	go func() {
		for m := range sent {
			<-m.ack.Ok()
			fmt.Fprintln(os.Stdout, m.n)
		}
	}()
	for n := 0; ; n++ {
		ack, err := j.PublishAsync(subject(n), body(n))
		if err != nil {
			return err
		}
		sent <- numbered{n, ack}
	}
}

// A process that is killed loses nothing that was acknowledged, and what the kill
// leaves behind is not taken for damage.
func TestKill(t *testing.T) {
	for range 3 {
		dir := t.TempDir()
		child := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^$")
		child.Env = append(os.Environ(), writerDir+"="+dir)
		out, err := child.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		var stderr strings.Builder
		child.Stderr = &stderr
		if err := child.Start(); err != nil {
			t.Fatal(err)
		}
		enough, acknowledged := 100+rand.IntN(3000), 0
		for lines := bufio.NewScanner(out); lines.Scan(); {
			acknowledged++
			if acknowledged == enough {
				if err := child.Process.Kill(); err != nil {
					t.Fatal(err)
				}
			}
		}
		if err := child.Wait(); err == nil || acknowledged < enough {
			t.Fatalf("the writer ended by itself after %d messages (%v): %s", acknowledged, err, stderr.String())
		}
		s := start(t, config(dir))
		if s.Damaged() {
			t.Errorf("killed after %d: taken for damage: %v", acknowledged, s.Damage())
		}
		found := stored(t, s, acknowledged)
		if len(found) != acknowledged {
			t.Errorf("%d of %d acknowledged messages are left", len(found), acknowledged)
		}
		stop(t, s)
	}
}

package embedded_test

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/informd/informd/pkg/journal/embedded"
)

// writerDir tells the test's own binary to append to the journal in that directory
// until it is killed.
const writerDir = "INFORMD_TEST_WRITER_DIR"

// writerSubjects is how many subjects it appends to in turn, without end if unset.
const writerSubjects = "INFORMD_TEST_WRITER_SUBJECTS"

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
	subjects, err := strconv.Atoi(cmp.Or(os.Getenv(writerSubjects), strconv.Itoa(math.MaxInt)))
	if err != nil {
		return err
	}
	for n := 0; ; n++ {
		ack, err := j.PublishAsync(subject(n%subjects), body(n))
		if err != nil {
			return err
		}
		sent <- numbered{n, ack}
	}
}

// writer starts the test's own binary to append to a journal, and calls acknowledged
// with the number of each message until that returns false. Then it is killed.
func writer(t *testing.T, dir string, subjects int, acknowledged func(n int) bool) {
	t.Helper()
	child := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^$")
	child.Env = append(os.Environ(), writerDir+"="+dir, writerSubjects+"="+strconv.Itoa(subjects))
	out, err := child.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	var stderr strings.Builder
	child.Stderr = &stderr
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	killed := false
	for lines := bufio.NewScanner(out); lines.Scan(); {
		n, err := strconv.Atoi(lines.Text())
		if err != nil {
			t.Error(err)
		}
		if !acknowledged(n) && !killed {
			killed = true
			if err := child.Process.Kill(); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := child.Wait(); err == nil || !killed {
		t.Fatalf("the writer ended by itself (%v): %s", err, stderr.String())
	}
}

// A process that is killed loses nothing that was acknowledged, and what the kill
// leaves behind is not taken for damage.
func TestKill(t *testing.T) {
	for range 3 {
		dir := t.TempDir()
		enough, acknowledged := 100+rand.IntN(3000), 0
		writer(t, dir, math.MaxInt, func(n int) bool {
			acknowledged = n + 1
			return acknowledged < enough
		})
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

// recordedAndGone returns the blocks that the ledger has and that are not there.
func recordedAndGone(t *testing.T, dir string) []string {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(dir, "store.json"))
	if err != nil {
		t.Fatal(err)
	}
	var ledger struct {
		Streams map[string]map[string]any `json:"streams"`
	}
	if err := json.Unmarshal(raw, &ledger); err != nil {
		t.Fatal(err)
	}
	var gone []string
	for file := range ledger.Streams[stream] {
		if _, err := os.Stat(filepath.Join(messageDir(dir), file)); errors.Is(err, fs.ErrNotExist) && strings.HasSuffix(file, ".blk") {
			gone = append(gone, file)
		}
	}
	return gone
}

// A kill between the removal of a block, all whose messages were superseded, and
// the record of that is no damage. Without the second names it looks like some.
func TestKillAfterRemoval(t *testing.T) {
	const subjects = 40
	var dir string
	var last map[int]uint64 // of each subject, the last sequence that was acknowledged
	for attempt := 0; ; attempt++ {
		if attempt == 20 {
			t.Fatal("no kill came between the removal of a block and its record")
		}
		dir, last = t.TempDir(), make(map[int]uint64)
		writer(t, dir, subjects, func(n int) bool {
			last[n%subjects] = uint64(n) + 1
			return n%20 != 0 || len(recordedAndGone(t, dir)) == 0
		})
		if len(recordedAndGone(t, dir)) > 0 {
			break
		}
	}
	blind := t.TempDir()
	if err := os.CopyFS(blind, os.DirFS(dir)); err != nil {
		t.Fatal(err)
	}
	remove(t, filepath.Join(blind, "blocks"))
	if s := start(t, config(blind)); !s.Damaged() {
		t.Error("without second names a missing block is not taken for damage")
	}

	s := start(t, config(dir))
	if s.Damaged() {
		t.Errorf("taken for damage: %v", s.Damage())
	}
	st := create(t, s)
	for n, sequence := range last {
		m, err := st.GetLastMsgForSubject(timeout(t), subject(n))
		if err != nil || m.Sequence < sequence {
			t.Errorf("subject %d: the last message is %+v (%v), %d was acknowledged", n, m, err, sequence)
		}
	}
	publish(t, s, 0, 10)
	stop(t, s)
	if again := start(t, config(dir)); again.Damaged() {
		t.Errorf("at the next start: %v", again.Damage())
	}
}

// recordedSize returns how long the block was at the last look of the process, in bytes.
func recordedSize(t *testing.T, dir, block string) int64 {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(dir, "sizes.json"))
	if err != nil {
		t.Fatal(err)
	}
	var sizes struct {
		Streams map[string]map[string]struct {
			Size int64 `json:"size"`
		} `json:"streams"`
	}
	if err := json.Unmarshal(raw, &sizes); err != nil {
		t.Fatal(err)
	}
	return sizes.Streams[stream][filepath.Base(block)].Size
}

// After a kill the last block may end with an unfinished write. One that lost whole messages looks
// the same, and is damage, unless the server has written the block again since the last look.
func TestCutAfterKill(t *testing.T) {
	for when, test := range map[string]struct {
		length  func(recorded int64) int64
		again   bool
		damaged bool
	}{
		"within the last second": {length: func(n int64) int64 { return n + 1 }},
		"before it":              {length: func(n int64) int64 { return n - 1 }, damaged: true},
		"long before it":         {length: func(int64) int64 { return 10_000 }, damaged: true},
		"written again":          {length: func(n int64) int64 { return n - 1 }, again: true},
	} {
		t.Run(when, func(t *testing.T) {
			dir := t.TempDir()
			writer(t, dir, math.MaxInt, func(int) bool {
				all := blocks(t, dir)
				return recordedSize(t, dir, all[len(all)-1]) < 100_000
			})
			all := blocks(t, dir)
			block := all[len(all)-1]
			if test.again {
				content, err := os.ReadFile(block)
				if err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(block+".new", content, 0o600); err != nil {
					t.Fatal(err)
				}
				if err := os.Rename(block+".new", block); err != nil {
					t.Fatal(err)
				}
			}
			if err := os.Truncate(block, test.length(recordedSize(t, dir, block))); err != nil {
				t.Fatal(err)
			}
			s := start(t, config(dir))
			if s.Damaged() != test.damaged {
				t.Errorf("damaged is %t: %v", s.Damaged(), s.Damage())
			}
			if err := s.MadeGood(); err != nil {
				t.Fatal(err)
			}
			stop(t, s)
			if again := start(t, config(dir)); again.Damaged() {
				t.Errorf("damaged after it was made good: %v", again.Damage())
			}
		})
	}
}

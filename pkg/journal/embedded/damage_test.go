package embedded_test

import (
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const messages = 2100 // about 17 MiB: three blocks

// filled returns a directory with a journal of that many messages that was closed
// in order.
func filled(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	s := start(t, config(dir))
	create(t, s)
	publish(t, s, 0, messages)
	stop(t, s)
	if n := len(blocks(t, dir)); n < 3 {
		t.Fatalf("%d blocks, 3 are needed", n)
	}
	return dir
}

func remove(t *testing.T, path string) {
	t.Helper()
	if err := os.RemoveAll(path); err != nil {
		t.Fatal(err)
	}
}

// Whatever happens to the files while informd does not run: it starts, serves all
// that can still be read, and says that something is missing.
func TestDamage(t *testing.T) {
	streamDir := func(dir string) string { return filepath.Dir(messageDir(dir)) }
	tests := map[string]struct {
		harm func(t *testing.T, dir string)
		// left is how many messages must be there at least; silent says that this is
		// no damage, since nothing is lost.
		left   int
		silent bool
		kept   bool // the damaged file is set aside
	}{
		"nothing":               {harm: func(*testing.T, string) {}, left: messages, silent: true},
		"killed":                {harm: crashed, left: messages, silent: true},
		"index missing":         {harm: func(t *testing.T, dir string) { remove(t, filepath.Join(messageDir(dir), "index.db")) }, left: messages, silent: true},
		"index flipped":         {harm: func(t *testing.T, dir string) { flip(t, filepath.Join(messageDir(dir), "index.db"), 100) }, left: messages, silent: true},
		"index missing, killed": {harm: func(t *testing.T, dir string) { crashed(t, dir); remove(t, filepath.Join(messageDir(dir), "index.db")) }, left: messages, silent: true},
		"body flipped, killed": {
			harm: func(t *testing.T, dir string) { crashed(t, dir); flip(t, blocks(t, dir)[1], 100_000) },
			left: messages - 1, kept: true,
		},
		"body flipped, index missing": {
			harm: func(t *testing.T, dir string) {
				remove(t, filepath.Join(messageDir(dir), "index.db"))
				flip(t, blocks(t, dir)[1], 100_000)
			},
			left: messages - 1, kept: true,
		},
		"length flipped, killed": {
			harm: func(t *testing.T, dir string) { crashed(t, dir); flip(t, blocks(t, dir)[0], 2) },
			left: messages - 1, kept: true,
		},
		"last message flipped, killed": {
			harm: func(t *testing.T, dir string) {
				crashed(t, dir)
				all := blocks(t, dir)
				last := all[len(all)-1]
				info, err := os.Stat(last)
				if err != nil {
					t.Fatal(err)
				}
				flip(t, last, info.Size()-100)
			},
			left: messages - 1, kept: true,
		},
		"block truncated": {
			harm: func(t *testing.T, dir string) {
				if err := os.Truncate(blocks(t, dir)[1], 4<<20); err != nil {
					t.Fatal(err)
				}
			},
			left: messages - 600, kept: true,
		},
		"block missing":             {harm: func(t *testing.T, dir string) { remove(t, blocks(t, dir)[1]) }, left: messages - 1100},
		"block missing, killed":     {harm: func(t *testing.T, dir string) { crashed(t, dir); remove(t, blocks(t, dir)[1]) }, left: messages - 1100},
		"last block missing":        {harm: func(t *testing.T, dir string) { remove(t, blocks(t, dir)[2]) }, left: messages - 1100},
		"metadata missing":          {harm: func(t *testing.T, dir string) { remove(t, filepath.Join(streamDir(dir), "meta.inf")) }, left: messages, kept: true},
		"metadata checksum missing": {harm: func(t *testing.T, dir string) { remove(t, filepath.Join(streamDir(dir), "meta.sum")) }, left: messages, kept: true},
		"metadata flipped":          {harm: func(t *testing.T, dir string) { flip(t, filepath.Join(streamDir(dir), "meta.inf"), 20) }, left: messages, kept: true},
		"stream missing":            {harm: func(t *testing.T, dir string) { remove(t, streamDir(dir)) }},
		"store missing":             {harm: func(t *testing.T, dir string) { remove(t, filepath.Join(dir, "jetstream")) }},
		"record missing":            {harm: func(t *testing.T, dir string) { remove(t, filepath.Join(dir, "store.json")) }, left: messages},
		"record flipped":            {harm: func(t *testing.T, dir string) { flip(t, filepath.Join(dir, "store.json"), 1) }, left: messages},
		"block unreadable": {
			harm: func(t *testing.T, dir string) {
				block := blocks(t, dir)[1]
				remove(t, block)
				if err := os.Mkdir(block, 0o700); err != nil {
					t.Fatal(err)
				}
			},
			left: messages - 1100, kept: true,
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			dir := filled(t)
			test.harm(t, dir)
			s := start(t, config(dir))
			if s.Damaged() == test.silent {
				t.Errorf("damaged is %t: %v", s.Damaged(), s.Damage())
			}
			found := stored(t, s, messages)
			if len(found) < test.left {
				t.Errorf("%d of %d messages are left, %d can be saved", len(found), messages, test.left)
			}
			if aside, _ := filepath.Glob(filepath.Join(dir, "damaged-*", stream, "*")); test.kept && len(aside) == 0 {
				t.Error("the damaged file was not set aside")
			}
			// What is left is consistent: the count is that of what can be read, and no
			// sequence is given out again.
			info, err := create(t, s).Info(timeout(t))
			if err != nil {
				t.Fatal(err)
			}
			if int(info.State.Msgs) != len(found) {
				t.Errorf("the stream counts %d messages and delivers %d", info.State.Msgs, len(found))
			}
			if test.left > 0 && info.State.LastSeq < messages {
				t.Errorf("the last sequence went back to %d of %d", info.State.LastSeq, messages)
			}
			publish(t, s, messages, messages+10)
			stop(t, s)

			again := start(t, config(dir))
			if again.Damaged() == test.silent {
				t.Errorf("at the next start damaged is %t: %v", again.Damaged(), again.Damage())
			}
			if after := stored(t, again, messages+10); len(after) != len(found)+10 {
				t.Errorf("%d messages at the next start, want %d", len(after), len(found)+10)
			}
			if err := again.MadeGood(); err != nil {
				t.Fatal(err)
			}
			stop(t, again)
			if healed := start(t, config(dir)); healed.Damaged() {
				t.Errorf("damaged after it was made good: %v", healed.Damage())
			}
		})
	}
}

// Damage that is found when the guard restarts the server ends the service: only the next process
// can open the journal without the checkpoints that count on the lost messages.
func TestDamageBelowARunningServer(t *testing.T) {
	var log logBuffer
	dir := filled(t)
	c := config(dir)
	c.Logger = slog.New(slog.NewTextHandler(&log, nil))
	s := start(t, c)
	publish(t, s, messages, messages+1) // the ledger does not say clean any more
	flip(t, blocks(t, dir)[0], 100_000)
	if err := s.StopJetStream(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the damage to be found", func() bool {
		ok, reason := s.State()
		return s.Stuck() && !ok && strings.Contains(reason, "restart informd")
	})
	if !strings.Contains(log.String(), "restart informd to repair it") {
		t.Error("the damage was not logged")
	}
	stop(t, s)
	next := start(t, config(dir))
	if !next.Damaged() || next.Stuck() {
		t.Error("the next start does not know of the damage")
	}
	if found := stored(t, next, messages+1); len(found) != messages {
		t.Errorf("%d of %d messages are left, 1 was damaged", len(found), messages+1)
	}
}

// A bit that turned on the disk after a clean stop shows in no size and no time.
func TestScrub(t *testing.T) {
	dir := filled(t)
	flip(t, blocks(t, dir)[1], 100_000)
	s := start(t, config(dir))
	eventually(t, "the scrub to find the flipped bit", s.Damaged)
	stop(t, s)

	repaired := start(t, config(dir))
	if !repaired.Damaged() {
		t.Error("the next start does not know of the damage")
	}
	if found := stored(t, repaired, messages); len(found) != messages-1 {
		t.Errorf("%d of %d messages are left, 1 was damaged", len(found), messages)
	}
}

// After a crash, a block of another stream than the journal's may be missing: it
// may have been emptied after the last look.
func TestOtherStreamsBlock(t *testing.T) {
	for name, test := range map[string]struct {
		harm    func(t *testing.T, dir string)
		damaged bool
	}{
		"killed": {harm: crashed},
		"closed": {harm: func(*testing.T, string) {}, damaged: true},
	} {
		t.Run(name, func(t *testing.T) {
			dir := filled(t)
			test.harm(t, dir)
			remove(t, blocks(t, dir)[0])
			c := config(dir)
			c.Stream = "OTHER"
			if s := start(t, c); s.Damaged() != test.damaged {
				t.Errorf("damaged is %t: %v", s.Damaged(), s.Damage())
			}
		})
	}
}

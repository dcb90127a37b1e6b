package embedded_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/informd/informd/pkg/journal/embedded"
)

// frozen returns a copy of the files of a journal that runs and is not written to,
// as a kill would leave them.
func frozen(t *testing.T, dir string) string {
	t.Helper()
	eventually(t, "the ledger and the second names to be those of the blocks", func() bool {
		for _, path := range blocks(t, dir) {
			held, err := os.Stat(filepath.Join(dir, "blocks", stream, filepath.Base(path)))
			if err != nil {
				return false
			}
			if is, err := os.Stat(path); err != nil || !os.SameFile(is, held) {
				return false
			}
		}
		return len(recordedAndGone(t, dir)) == 0
	})
	var killed string
	eventually(t, "a copy during which no file went", func() bool {
		killed = t.TempDir()
		return os.CopyFS(killed, os.DirFS(dir)) == nil
	})
	return killed
}

// A block that is missing after a kill is damage unless every message in it is
// known to be superseded or purged.
func TestMissingBlock(t *testing.T) {
	purge := func(t *testing.T, s *embedded.Server, n int) {
		t.Helper()
		if err := create(t, s).Purge(timeout(t), jetstream.WithPurgeSubject(subject(n))); err != nil {
			t.Fatal(err)
		}
	}
	again := func(t *testing.T, s *embedded.Server) { publish(t, s, 0, messages) }
	tests := map[string]struct {
		prepare func(t *testing.T, s *embedded.Server)
		missing int
		harm    func(t *testing.T, dir string)
		damaged bool
	}{
		"superseded": {prepare: again},
		"superseded, two blocks": {
			prepare: again,
			harm:    func(t *testing.T, dir string) { remove(t, blocks(t, dir)[0]) },
		},
		"not superseded": {prepare: func(*testing.T, *embedded.Server) {}, damaged: true},
		"one message not superseded": {
			prepare: func(t *testing.T, s *embedded.Server) {
				publish(t, s, 0, 5)
				publish(t, s, 6, messages)
			},
			damaged: true,
		},
		"one message purged": {
			prepare: func(t *testing.T, s *embedded.Server) {
				publish(t, s, 0, 5)
				publish(t, s, 6, messages)
				purge(t, s, 5)
			},
		},
		"what superseded it is missing, too": {
			prepare: again,
			harm: func(t *testing.T, dir string) {
				for _, path := range blocks(t, dir)[1:] {
					remove(t, path)
				}
			},
			damaged: true,
		},
		"no second name": {
			prepare: again,
			harm:    func(t *testing.T, dir string) { remove(t, filepath.Join(dir, "blocks")) },
			damaged: true,
		},
		"second name damaged": {
			prepare: again,
			harm:    func(t *testing.T, dir string) { flip(t, filepath.Join(dir, "blocks", stream, "1.blk"), 100_000) },
			damaged: true,
		},
		"the rest damaged": {
			prepare: again,
			harm: func(t *testing.T, dir string) {
				all := blocks(t, dir)
				flip(t, all[len(all)-1], 100_000)
			},
			damaged: true,
		},
		"only it says what was purged": {
			prepare: func(t *testing.T, s *embedded.Server) {
				purge(t, s, 5)
				publish(t, s, 0, 5)
				publish(t, s, 6, messages)
			},
			missing: 2,
			damaged: true,
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			s := start(t, config(dir))
			create(t, s)
			publish(t, s, 0, messages)
			test.prepare(t, s)
			killed := frozen(t, dir)
			stop(t, s)
			remove(t, blocks(t, killed)[test.missing])
			if test.harm != nil {
				test.harm(t, killed)
			}
			after := start(t, config(killed))
			if after.Damaged() != test.damaged {
				t.Errorf("damaged is %t: %v", after.Damaged(), after.Damage())
			}
		})
	}
}

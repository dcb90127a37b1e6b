package chaos

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"time"
)

// losePower ends informd as a power loss does: what its log has not synced is cut back, to a length
// at random. No sink may have relied on that, so the log must not declare a loss. Over a compaction,
// only the log knows what the sinks have.
func losePower(overCompaction bool) func(*attack) error {
	return func(a *attack) error {
		if err := a.killAll(); err != nil {
			return err
		}
		var err error
		for i := range a.informds {
			err = errors.Join(err, cutUnsynced(a.sides[i].dir, a.random))
		}
		a.hold(0, 3*time.Second)
		if overCompaction {
			err = errors.Join(err, a.loseHistory())
		}
		logged := a.logSizes()
		err = errors.Join(err, a.startAll())
		for i, d := range a.informds {
			content, readErr := os.ReadFile(d.log)
			err = errors.Join(err, readErr)
			if n := min(logged[i], len(content)); bytes.Contains(content[n:], []byte("journal lacks events")) {
				a.violate(Violation{Invariant: "I21", Text: "after a power loss the log has declared a loss"})
			}
		}
		return err
	}
}

func (r *Rig) logSizes() (sizes []int) {
	for _, d := range r.informds {
		content, _ := os.ReadFile(d.log) // without it, all of the log is searched
		sizes = append(sizes, len(content))
	}
	return sizes
}

// cutUnsynced cuts back the segments of a log that nobody can rely on. The file synced has the number
// of the last segment that was synced, and its length then.
func cutUnsynced(dir string, random *rand.Rand) error {
	synced, err := os.ReadFile(filepath.Join(dir, "synced"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil // nothing was synced yet
	}
	if err != nil || len(synced) < 28 {
		return errors.Join(err, fmt.Errorf("the file synced has %d bytes", len(synced)))
	}
	last, length := uint64(binary.LittleEndian.Uint32(synced[16:])), int64(binary.LittleEndian.Uint64(synced[20:]))
	segments, err := filepath.Glob(filepath.Join(dir, "*.00000000.log"))
	for _, path := range segments {
		number, parseErr := strconv.ParseUint(filepath.Base(path)[:8], 16, 64)
		info, statErr := os.Stat(path)
		if err = errors.Join(err, parseErr, statErr); err != nil {
			return err
		}
		keep := info.Size()
		if number == last {
			keep = length
		} else if number > last {
			keep = 0
		}
		if keep > info.Size() {
			return fmt.Errorf("%s has %d bytes, and %d were synced", path, info.Size(), keep)
		}
		err = os.Truncate(path, keep+random.Int64N(info.Size()-keep+1))
	}
	return err
}

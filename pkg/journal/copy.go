package journal

import (
	"encoding/json"
	"errors"
	"io/fs"

	"github.com/informd/informd/pkg/journal/internal/disk"
	"github.com/informd/informd/pkg/journal/internal/wal"
)

// copyFile is the file that says what the log in a directory is a copy of. A log that was never copied
// has none.
const copyFile = "copy"

// copyState is its content.
type copyState struct {
	Is string `json:"is"`
	// Boot is that of the machine. A power loss may have taken a part of the copy.
	Boot string `json:"boot"`
	// Term is that of the leader whose log it is.
	Term int64 `json:"term"`
}

const (
	// copyPartial: files of several terms may be mixed.
	copyPartial = "partial"
	// copyWhole: it has whatever a sink has of new objects, as long as the leader counts on it.
	copyWhole = "whole"
	// copyStale: it is a log as it was once, and the leader no longer counts on it.
	copyStale = "stale"
)

func readCopyState(d disk.Dir) (s copyState, err error) {
	content, err := disk.Read(d, copyFile, 0, 1<<10)
	if errors.Is(err, fs.ErrNotExist) {
		return s, nil
	}
	if err == nil && json.Unmarshal(content, &s) != nil {
		s.Is = copyPartial
	}
	return s, err
}

// noteCopy writes the state of a copy, and syncs it.
func noteCopy(d disk.Dir, s copyState) error {
	content, err := json.Marshal(s)
	if err != nil {
		return err
	}
	if err := disk.Write(d, copyFile, content, true); err != nil {
		return err
	}
	return d.Sync()
}

// prepareCopy readies a copy to be opened: of a mixture nothing stays. It sets in o what the log has to
// declare.
func prepareCopy(d disk.Dir, o *wal.Options) error {
	s, err := readCopyState(d)
	if err != nil || s.Is == "" {
		return err
	}
	o.Copied, o.Stale = true, s.Is != copyWhole || s.Boot != o.Boot
	if s.Is != copyPartial {
		return nil
	}
	names, err := d.Names()
	if err != nil {
		return err
	}
	for _, name := range names {
		if wal.IsFile(name) {
			if err := d.Remove(name); err != nil {
				return err
			}
		}
	}
	return d.Sync()
}

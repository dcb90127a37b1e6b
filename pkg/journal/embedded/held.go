package embedded

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
)

// heldDirectory has the second names of the blocks, a directory for each stream.
const heldDirectory = "blocks"

// holder gives every block of the journal's streams a second name (a hard link). The
// server removes a block when all its messages are superseded or purged; if the
// process is killed before that is recorded, the second name still tells what was
// in it. It may not be used concurrently.
type holder struct {
	dir    string // journal.dir
	prefix string // of the streams' names
	store  store
	logger *slog.Logger

	held   map[string]heldBlock // by second name
	failed bool                 // there are no second names on this disk
}

type heldBlock struct {
	file fileLedger // when last looked at
	info fs.FileInfo
}

// heldPath is the second name of a block.
func heldPath(dir, stream, file string) string {
	return filepath.Join(dir, heldDirectory, stream, file)
}

// hold makes the second names that are missing, also of blocks that the server has
// written anew. Where that does not work, a block that goes in the last moment
// before a crash is taken for lost.
func (h *holder) hold(streams map[string]streamLedger) {
	if h.held == nil {
		h.held = make(map[string]heldBlock)
	}
	for stream, files := range streams {
		if !strings.HasPrefix(stream, h.prefix) {
			continue
		}
		for file, now := range files {
			if _, block := blockIndex(file); !block {
				continue
			}
			if err := h.holdBlock(stream, file, now); err != nil && !errors.Is(err, fs.ErrNotExist) && !h.failed {
				h.failed = true
				h.logger.Warn("journal blocks not linked; a crash may look like damage", "dir", h.dir, "err", err)
			}
		}
	}
}

func (h *holder) holdBlock(stream, file string, now fileLedger) error {
	name, path := heldPath(h.dir, stream, file), filepath.Join(h.store.messages(stream), file)
	before, known := h.held[name]
	if known && before.file == now {
		return nil
	}
	info, err := os.Lstat(path)
	if err != nil {
		return err
	}
	if known && os.SameFile(before.info, info) {
		h.held[name] = heldBlock{file: now, info: info} // it has grown
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
		return err
	}
	temporary := name + ".new"
	if err := os.Remove(temporary); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := os.Link(path, temporary); err != nil {
		return err
	}
	if err := os.Rename(temporary, name); err != nil {
		return err
	}
	if info, err = os.Lstat(name); err != nil {
		return err
	}
	h.held[name] = heldBlock{file: now, info: info}
	return nil
}

// release gives up the second names of all other blocks, whose room is free then.
func (h *holder) release(streams map[string]streamLedger) error {
	root := filepath.Join(h.dir, heldDirectory)
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		stream := filepath.Base(filepath.Dir(path))
		if _, there := streams[stream][entry.Name()]; there {
			return nil
		}
		delete(h.held, path)
		return os.Remove(path) //nolint:gosec // the directory is informd's own
	})
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("release blocks of the journal: %w", err)
	}
	return nil
}

// releaseAll gives up all second names: after a clean end the record is exact.
func (h *holder) releaseAll() error {
	clear(h.held)
	if err := os.RemoveAll(filepath.Join(h.dir, heldDirectory)); err != nil {
		return fmt.Errorf("release blocks of the journal: %w", err)
	}
	return nil
}

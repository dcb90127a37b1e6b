package storefiles

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

// Links gives every block of the journal's streams a second name (a hard link). The server removes
// a block when all its messages are superseded or purged. If the process is killed before that is
// recorded, the second name has the content of the removed block. It must not be used
// concurrently.
type Links struct {
	// Dir is journal.dir, Prefix that of the names of the journal's streams.
	Dir, Prefix string
	Store       Store
	Logger      *slog.Logger

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

// Hold makes the missing second names, also of blocks that the server wrote again. Without second
// names, a block that is removed in the moment before a crash counts as lost.
func (h *Links) Hold(streams map[string]StreamLedger) {
	if h.held == nil {
		h.held = make(map[string]heldBlock)
	}
	for stream, files := range streams {
		if !strings.HasPrefix(stream, h.Prefix) {
			continue
		}
		for file, now := range files {
			if _, block := blockIndex(file); !block {
				continue
			}
			if err := h.holdBlock(stream, file, now); err != nil && !errors.Is(err, fs.ErrNotExist) && !h.failed {
				h.failed = true
				h.Logger.Warn("journal blocks not linked; a crash may look like damage", "dir", h.Dir, "err", err)
			}
		}
	}
}

func (h *Links) holdBlock(stream, file string, now fileLedger) error {
	name, path := heldPath(h.Dir, stream, file), filepath.Join(h.Store.Messages(stream), file)
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

// Release removes the second names of all other blocks, which frees their space.
func (h *Links) Release(streams map[string]StreamLedger) error {
	root := filepath.Join(h.Dir, heldDirectory)
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

// ReleaseAll removes all second names: after a clean end the record is exact.
func (h *Links) ReleaseAll() error {
	clear(h.held)
	if err := os.RemoveAll(filepath.Join(h.Dir, heldDirectory)); err != nil {
		return fmt.Errorf("release blocks of the journal: %w", err)
	}
	return nil
}

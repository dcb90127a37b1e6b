package storefiles

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"github.com/informd/informd/internal/private"
)

// sizesFile is where the sizes are kept, beside the ledger.
const sizesFile = "sizes.json"

// Sizes are how long the blocks were at the last look, in bytes, by stream and file. The server
// appends to a block and writes it again as another file, but never shortens it by a whole message.
// So a shorter block was cut, even if its end looks like a write that a crash has torn.
type Sizes struct {
	// Boot names the run of the machine: the file is not synced to the disk.
	Boot    string                       `json:"boot"`
	Streams map[string]map[string]length `json:"streams"`
}

// length is how long the file with an inode was. A block that is written again has another inode,
// because the second name keeps the earlier one.
type length struct {
	Inode uint64 `json:"inode"`
	Size  int64  `json:"size"`
}

// inode returns the number of a file, 0 if the system has none.
func inode(info fs.FileInfo) uint64 {
	if stat, ok := info.Sys().(*syscall.Stat_t); ok {
		return stat.Ino
	}
	return 0
}

// Sizes returns the sizes of the blocks as of the last Hold.
func (h *Links) Sizes() Sizes {
	s := Sizes{Boot: BootID(), Streams: make(map[string]map[string]length)}
	for name, block := range h.held {
		stream := filepath.Base(filepath.Dir(name))
		if s.Streams[stream] == nil {
			s.Streams[stream] = make(map[string]length)
		}
		s.Streams[stream][filepath.Base(name)] = length{inode(block.info), block.info.Size()}
	}
	return s
}

// Write puts the sizes in the place of those before. It does not wait for the disk.
func (s Sizes) Write(dir string) error {
	raw, err := json.Marshal(s)
	if err != nil {
		return fmt.Errorf("encode the sizes of the journal's blocks: %w", err)
	}
	if err := replaceFile(filepath.Join(dir, sizesFile), raw, false); err != nil {
		return fmt.Errorf("write the sizes of the journal's blocks: %w", err)
	}
	return nil
}

// readSizes returns the sizes that were written in this run of the machine, if there are any.
func readSizes(dir string) Sizes {
	var s Sizes
	raw, err := private.Read(filepath.Join(dir, sizesFile))
	if err != nil || json.Unmarshal(raw, &s) != nil || s.Boot == "" || s.Boot != BootID() {
		return Sizes{}
	}
	return s
}

// compareSizes finds blocks that were cut.
func (i *Inspection) compareSizes(stream string, files StreamLedger) {
	for file, before := range i.sizes.Streams[stream] {
		if now, ok := files[file]; !ok || now.Size >= before.Size {
			continue
		}
		// If the block cannot be read, that is found later.
		if info, err := os.Lstat(filepath.Join(i.Store.Messages(stream), file)); err == nil && inode(info) == before.Inode {
			i.Found("message block cut", "stream", stream, "path", file)
		}
	}
}

// cutOff cuts the unfinished write off a block. If the process is killed next, the block must not
// look shorter than it was.
func (i *Inspection) cutOff(stream, file string, intact int64) error {
	if len(i.Damage) > 0 {
		// The next start cannot find the damage again, if this one does not get further.
		if err := i.Note(i.Damage); err != nil {
			return err
		}
	}
	if i.sizes.Streams[stream] != nil {
		delete(i.sizes.Streams[stream], file)
		if err := i.sizes.Write(i.Dir); err != nil {
			return err
		}
	}
	if err := os.Truncate(filepath.Join(i.Store.Messages(stream), file), intact); err != nil {
		return fmt.Errorf("cut off an unfinished write to stream %s: %w", stream, err)
	}
	return nil
}

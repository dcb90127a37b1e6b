package storefiles

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/informd/informd/internal/private"
)

// ledgerFile is where the ledger is kept, beside the store that it is about.
const ledgerFile = "store.json"

// Ledger is what this package knows about the store from the last time: without
// it a stream or a block that is gone looks like one that never was.
type Ledger struct {
	// Clean says that the server was stopped in order and wrote its indexes, and nothing has
	// touched the store since. Then Streams is exact; else it is as of the last look, and a
	// block may have gone since for a good reason.
	Clean bool `json:"clean"`
	// Damage is what was found, until somebody said that it was made good.
	Damage []string `json:"damage,omitempty"`
	// Boot names the run of the machine: what was not synced to the disk does not
	// outlive it.
	Boot    string                  `json:"boot"`
	Streams map[string]StreamLedger `json:"streams"`
}

// StreamLedger is the files of a stream that hold messages, by name.
type StreamLedger map[string]fileLedger

type fileLedger struct {
	Size int64 `json:"size"`
	// Time is when the file was written last, in nanoseconds since 1970.
	Time int64 `json:"time"`
}

// ReadLedger returns nil if there is none or if it cannot be read: then nothing
// is known.
func ReadLedger(dir string) (*Ledger, error) {
	raw, err := private.Read(filepath.Join(dir, ledgerFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil //nolint:nilnil // no ledger is an answer
	}
	if err != nil {
		return nil, fmt.Errorf("read the record of the journal's store: %w", err)
	}
	var l Ledger
	if err := json.Unmarshal(raw, &l); err != nil {
		return nil, nil //nolint:nilnil,nilerr // as good as none: the caller then trusts nothing
	}
	return &l, nil
}

// Write puts the ledger in the place of the one before, so that a crash leaves
// one of the two.
func (l *Ledger) Write(dir string) error {
	raw, err := json.Marshal(l)
	if err != nil {
		return fmt.Errorf("encode the record of the journal's store: %w", err)
	}
	if err := replaceFile(filepath.Join(dir, ledgerFile), raw, true); err != nil {
		return fmt.Errorf("write the record of the journal's store: %w", err)
	}
	return nil
}

// replaceFile writes a file that is either the old or the new one after the process was killed, and
// with sync also after the machine was.
func replaceFile(path string, content []byte, sync bool) error {
	temporary := path + ".new"
	file, err := private.Open(temporary, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = file.Write(content)
	if sync {
		err = errors.Join(err, file.Sync())
	}
	if err = errors.Join(err, file.Close()); err != nil {
		return errors.Join(err, os.Remove(temporary))
	}
	return os.Rename(temporary, path)
}

// Store is the directory of the server's streams.
type Store string

// StoreIn returns the store in the directory of a server.
func StoreIn(dir string) Store {
	return Store(filepath.Join(dir, "jetstream", "$G", "streams"))
}

func (s Store) stream(name string) string { return filepath.Join(string(s), name) }

// Messages returns the directory of the message files of a stream.
func (s Store) Messages(name string) string { return filepath.Join(string(s), name, "msgs") }

// Streams returns the names of the streams that have a directory, in order. One
// whose name begins with a dot is on its way out.
func (s Store) Streams() ([]string, error) {
	entries, err := os.ReadDir(string(s))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the journal's store: %w", err)
	}
	var names []string
	for _, entry := range entries {
		if entry.IsDir() && !strings.HasPrefix(entry.Name(), ".") {
			names = append(names, entry.Name())
		}
	}
	return names, nil
}

// Files returns the stream's message files. A file that is removed meanwhile is left out.
func (s Store) Files(stream string) (StreamLedger, error) {
	entries, err := os.ReadDir(s.Messages(stream))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("read the blocks of stream %s: %w", stream, err)
	}
	files := make(StreamLedger, len(entries))
	for _, entry := range entries {
		info, err := entry.Info()
		if errors.Is(err, fs.ErrNotExist) || !keptFile(entry.Name()) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("read the sizes of the blocks of stream %s: %w", stream, err)
		}
		files[entry.Name()] = fileLedger{Size: info.Size(), Time: info.ModTime().UnixNano()}
	}
	return files, nil
}

// All returns the files of every stream.
func (s Store) All() (map[string]StreamLedger, error) {
	names, err := s.Streams()
	if err != nil {
		return nil, err
	}
	streams := make(map[string]StreamLedger, len(names))
	for _, name := range names {
		if streams[name], err = s.Files(name); err != nil {
			return nil, err
		}
	}
	return streams, nil
}

// Size is the size of all message files, in bytes.
func (s Store) Size() (int64, error) {
	streams, err := s.All()
	size := int64(0)
	for _, files := range streams {
		for _, file := range files {
			size += file.Size
		}
	}
	return size, err
}

// HasMetadata reports whether the stream has the file by which the server knows it.
func (s Store) HasMetadata(stream string) bool {
	_, err := os.Stat(filepath.Join(s.stream(stream), "meta.inf"))
	return err == nil
}

const (
	blockSuffix = ".blk"
	indexFile   = "index.db"
)

func keptFile(name string) bool {
	_, ok := blockIndex(name)
	return ok || name == indexFile
}

// blockIndex returns the number in the name of a block file.
func blockIndex(name string) (uint32, bool) {
	digits, ok := strings.CutSuffix(name, blockSuffix)
	if !ok {
		return 0, false
	}
	index, err := strconv.ParseUint(digits, 10, 32)
	return uint32(index), err == nil
}

// Blocks returns the stream's block files in the order of their numbers.
func (l StreamLedger) Blocks() []uint32 {
	var indexes []uint32
	for name := range l {
		if index, ok := blockIndex(name); ok {
			indexes = append(indexes, index)
		}
	}
	slices.Sort(indexes)
	return indexes
}

// BlockName returns the name of the block file with a number.
func BlockName(index uint32) string { return strconv.FormatUint(uint64(index), 10) + blockSuffix }

// SameStreams reports whether both have the same streams with the same blocks; sizes do not
// matter.
func SameStreams(a, b map[string]StreamLedger) bool {
	return maps.EqualFunc(a, b, func(x, y StreamLedger) bool { return slices.Equal(x.Blocks(), y.Blocks()) })
}

// BootID identifies the run of the operating system, "" if the system has none.
func BootID() string {
	id, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(id))
}

package storefiles

import (
	"bytes"
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
	"slices"
)

// index is what the server wrote down of a stream when it stopped, or up to some minutes
// before it was killed: how many messages each subject had then.
type index struct {
	last     uint64 // the stream's last sequence; 0: nothing is known
	messages map[string]uint64
}

// The format of index.db, as the server's file store has it: a magic byte, a version, and
// variable-length numbers,
//
//	messages, bytes, first sequence, its time, last sequence, its time, subjects
//
// for each subject: its length, itself, how many messages it has, the first and the last
// block that has any; then what does not matter here, and at the end a checksum, 8 bytes
// HighwayHash of all before.
const (
	indexMagic = 11
	// indexVersion is the first one in which the last block is always there.
	indexVersion = 4
)

// readIndex returns an empty one where the server has none that can be read. It takes some
// 100 bytes for each subject, as the server itself does afterwards.
func (s Store) readIndex(stream string) index {
	content := s.indexContent(stream)
	if content == nil {
		return index{}
	}
	return decodeIndex(content[2:])
}

// indexContent returns the index of a stream without its checksum, nil if there is none or it is
// damaged.
func (s Store) indexContent(stream string) []byte {
	raw, err := os.ReadFile(filepath.Join(s.Messages(stream), indexFile))
	if err != nil || len(raw) < 2+checksumSize || raw[0] != indexMagic || raw[1] != indexVersion {
		return nil
	}
	content, sum := raw[:len(raw)-checksumSize], raw[len(raw)-checksumSize:]
	digest := newHash(stream)
	digest.Write(content)
	if !bytes.Equal(digest.Sum(nil), sum) {
		return nil
	}
	return content
}

// Indexed reports whether a stopped server has written the index of every stream. If one is
// missing or older than the last record of the last block, the next server reads the blocks, and
// brings back what it had removed.
func (s Store) Indexed() bool {
	names, err := s.Streams()
	return err == nil && !slices.ContainsFunc(names, func(name string) bool { return !s.indexed(name) })
}

// indexed is Indexed for one stream. The index ends with the number of the last block and the
// checksum of its last record.
func (s Store) indexed(stream string) bool {
	files, err := s.Files(stream)
	if err != nil {
		return false
	}
	blocks := files.Blocks()
	if len(blocks) == 0 {
		return true // there is nothing to read
	}
	last := blocks[len(blocks)-1]
	sum, err := endOf(filepath.Join(s.Messages(stream), BlockName(last)))
	return err == nil && bytes.HasSuffix(s.indexContent(stream), append(binary.AppendUvarint(nil, uint64(last)), sum...))
}

// endOf returns the last bytes of a block, as many as a checksum has; zeros if it is shorter.
func endOf(path string) ([]byte, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	end := make([]byte, checksumSize)
	info, err := file.Stat()
	if err == nil && info.Size() >= checksumSize {
		_, err = file.ReadAt(end, info.Size()-checksumSize)
	}
	return end, errors.Join(err, file.Close())
}

func decodeIndex(content []byte) index {
	whole := true
	number := func() uint64 {
		v, n := binary.Uvarint(content)
		if n <= 0 {
			whole = false
			return 0
		}
		content = content[n:]
		return v
	}
	for range 4 { // messages, bytes, first sequence, its time
		number()
	}
	last := number()
	number()
	subjects := number()
	found := index{last: last, messages: make(map[string]uint64)}
	for ; subjects > 0 && whole; subjects-- {
		length := number()
		if length > uint64(len(content)) {
			return index{}
		}
		subject := content[:length]
		content = content[length:]
		found.messages[string(subject)] = number()
		number()
		number()
	}
	if !whole {
		return index{}
	}
	return found
}

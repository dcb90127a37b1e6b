// Package segment is the form of the files of the log: a segment holds records, and an index file
// beside it what a start and the removal of records need to know of them.
//
// A segment is a header of 72 bytes and records, one after the other. Segments are numbered from 1,
// without holes. Compaction writes the records of one or more of them again, with a higher
// generation: that file covers the numbers of all of them.
package segment

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"

	"github.com/informd/informd/pkg/journal/internal/record"
)

// HeaderSize is the length of the header of a segment, in bytes.
const HeaderSize = 72

const (
	magic      = "INFLOG\x00\x03"
	indexMagic = "INFIDX\x00\x03"
	logSuffix  = ".log"
	idxSuffix  = ".idx"
)

// ErrInvalid says that a file is no segment or index file, or not that of its name.
var ErrInvalid = errors.New("invalid file")

// ErrFormat says that a file is a whole segment of another version of informd.
var ErrFormat = errors.New("another version of informd has written it, in a form that this one does not read")

// Name identifies a segment.
type Name struct {
	// Number is the place in the log, and of a file that replaces others that of the first.
	Number uint32
	// Generation is 0 for a segment that was appended to, and higher than that of each segment
	// that it replaces.
	Generation uint32
}

func (n Name) String() string { return fmt.Sprintf("%08x.%08x", n.Number, n.Generation) }

// Log is the name of the file of records.
func (n Name) Log() string { return n.String() + logSuffix }

// Index is the name of the index file.
func (n Name) Index() string { return n.String() + idxSuffix }

// ParseName reads the name of a file of records, or of an index file.
func ParseName(file string) (n Name, ok bool) {
	base, isLog := strings.CutSuffix(file, logSuffix)
	base, isIndex := strings.CutSuffix(base, idxSuffix)
	if _, err := fmt.Sscanf(base, "%08x.%08x", &n.Number, &n.Generation); err != nil || isLog == isIndex || n.String() != base {
		return Name{}, false
	}
	return n, n.Number > 0
}

// Header begins a segment:
//
//	at  size
//	 0   8   magic
//	 8  16   id of the log
//	24  16   secret of the key hashes
//	40   8   first sequence
//	48   8   size of the segment before it, when this one began; 0 without one
//	56   4   number
//	60   4   generation
//	64   4   last number that the file covers
//	68   4   CRC32C of all before
type Header struct {
	Name

	// ID is that of the log, and Secret that of its key hashes. Both are random, and the same
	// in all segments of a log.
	ID, Secret [16]byte
	// First is the first sequence that the segment may hold, from 1.
	First uint64
	// Previous is the size in bytes that the segment before it had when this one began. So a start
	// notices that the end of that one is missing.
	Previous int64
	// Through is the last number that the file covers.
	Through uint32
}

// Append appends the bytes of the header.
func (h *Header) Append(dst []byte) []byte {
	from := len(dst)
	dst = append(append(append(dst, magic...), h.ID[:]...), h.Secret[:]...)
	for _, n := range []uint64{h.First, uint64(h.Previous)} {
		dst = binary.LittleEndian.AppendUint64(dst, n)
	}
	for _, n := range []uint32{h.Number, h.Generation, h.Through} {
		dst = binary.LittleEndian.AppendUint32(dst, n)
	}
	return binary.LittleEndian.AppendUint32(dst, record.Checksum(dst[from:]))
}

// ParseHeader reads the header of the segment of that name. Its error wraps [ErrInvalid].
func ParseHeader(b []byte, of Name) (Header, error) {
	const end = HeaderSize - 4
	version := len(magic) - 1
	if len(b) >= HeaderSize && string(b[:version]) == magic[:version] && b[version] != magic[version] &&
		record.Checksum(b[:end]) == binary.LittleEndian.Uint32(b[end:]) {
		return Header{}, fmt.Errorf("%s: %w", of.Log(), ErrFormat)
	}
	if len(b) < HeaderSize || !bytes.HasPrefix(b, []byte(magic)) {
		return Header{}, fmt.Errorf("%w: %s is no segment of this format", ErrInvalid, of.Log())
	}
	if record.Checksum(b[:end]) != binary.LittleEndian.Uint32(b[end:]) {
		return Header{}, fmt.Errorf("%w: the header of %s has a wrong checksum", ErrInvalid, of.Log())
	}
	h := Header{
		ID: [16]byte(b[8:]), Secret: [16]byte(b[24:]),
		First:    binary.LittleEndian.Uint64(b[40:]),
		Previous: int64(binary.LittleEndian.Uint64(b[48:])),
		Name:     Name{Number: binary.LittleEndian.Uint32(b[56:]), Generation: binary.LittleEndian.Uint32(b[60:])},
		Through:  binary.LittleEndian.Uint32(b[64:]),
	}
	if h.Name != of || h.First == 0 || h.Through < h.Number {
		return Header{}, fmt.Errorf("%w: %s has the header of %s", ErrInvalid, of.Log(), h.Log())
	}
	return h, nil
}

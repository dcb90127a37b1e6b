// Package record is the form of one record of the log: a frame with a checksum, a head of
// fields, and data. It reads and writes bytes, and knows no file. The head of an event is in event.go.
//
// A record, little endian:
//
//	at  size
//	 0   4   CRC32C of all that follows
//	 4   4   length of all that follows, at most [MaxBody]
//	 8   1   kind
//	 9   1   flags
//	10   2   reserved, 0
//	12   8   sequence of the event; of other kinds, of the event before
//	20   8   time of the append, microseconds since 1970
//	28   4   number among the events of its key, from 1
//	32   4   length of the head
//	36       head, then data
package record

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
)

const (
	// HeaderSize is the length of what precedes the head of a record.
	HeaderSize = 36
	// MaxBody bounds what follows the length of a record, in bytes.
	MaxBody = 64 << 20
	// bodyAt is where the counted bytes begin.
	bodyAt = 8
)

// Kind says what a record is.
type Kind uint8

// The kinds. Their numbers are part of the format.
const (
	Event         Kind = iota + 1 // of an object or of a target
	Mark                          // the checkpoint of a target
	Cursor                        // the position of a sink
	Letter                        // a dead letter
	LetterDropped                 // ends a dead letter
	Forgotten                     // the last event of an object is none any more
	Binding                       // the cluster that the log belongs to
	Start                         // the beginning of a process on the log
	Stop                          // its clean end
)

// Keyed reports whether the record is of an object, or of a kind of control event, and not of a name. Its head is
// that of an event.
func (k Kind) Keyed() bool { return k == Event || k == Forgotten }

// Flags are properties of a record that its reader needs without its head.
type Flags uint8

// The flags. Their numbers are part of the format.
const (
	Hard        Flags = 1 << iota // no sink reads the record before it is synced
	Ends                          // a terminal event of an object
	Control                       // an event of a target
	DataRemoved                   // the record had data, which was removed for space
	Again                         // the event announces a state again, with a run of its own
)

// Record is one record. Head and Data are the caller's memory: [Append] copies them, and
// [Parse] returns parts of its argument.
type Record struct {
	Kind  Kind
	Flags Flags
	// Seq is the sequence of an event, and of another record that of the event before it.
	Seq uint64
	// Time is the time of the append, in microseconds since 1970.
	Time int64
	// Count is the number among the events of a key, from 1.
	Count      uint32
	Head, Data []byte
}

// The errors of [Parse].
var (
	// ErrShort: the bytes end inside of the record, or before it.
	ErrShort = errors.New("the record is cut off")
	// ErrInvalid: the bytes are no record. The error says why.
	ErrInvalid = errors.New("invalid record")
)

// Size is the length of the record in bytes.
func (r *Record) Size() int { return HeaderSize + len(r.Head) + len(r.Data) }

// Has reports whether all of these flags are set.
func (f Flags) Has(all Flags) bool { return f&all == all }

// Checksum is the CRC32C, which processors have an instruction for.
func Checksum(b []byte) uint32 { return crc32.Checksum(b, crc32.MakeTable(crc32.Castagnoli)) }

// Append appends the bytes of a record. It fails if the record is larger than the format allows.
func Append(dst []byte, r *Record) ([]byte, error) {
	if body := r.Size() - bodyAt; body > MaxBody {
		return dst, fmt.Errorf("a record of %d bytes exceeds the %d bytes of the format", body, MaxBody)
	}
	at := len(dst)
	var header [HeaderSize]byte
	header[8], header[9] = byte(r.Kind), byte(r.Flags)
	binary.LittleEndian.PutUint32(header[4:], uint32(r.Size()-bodyAt))
	binary.LittleEndian.PutUint64(header[12:], r.Seq)
	binary.LittleEndian.PutUint64(header[20:], uint64(r.Time))
	binary.LittleEndian.PutUint32(header[28:], r.Count)
	binary.LittleEndian.PutUint32(header[32:], uint32(len(r.Head)))
	dst = append(dst, header[:]...)
	dst = append(dst, r.Head...)
	dst = append(dst, r.Data...)
	binary.LittleEndian.PutUint32(dst[at:], Checksum(dst[at+4:]))
	return dst, nil
}

// Length returns the size of the record that begins with these bytes, of which it needs the first
// eight. The checksum is not compared.
func Length(b []byte) (int, error) {
	if len(b) < bodyAt {
		return 0, ErrShort
	}
	body := binary.LittleEndian.Uint32(b[4:])
	if body < HeaderSize-bodyAt || body > MaxBody {
		return 0, fmt.Errorf("%w: its length is %d", ErrInvalid, body)
	}
	return bodyAt + int(body), nil
}

// Parse reads the record that b begins with, and returns its size. Its error wraps [ErrShort] or
// [ErrInvalid].
func Parse(b []byte) (Record, int, error) {
	size, err := Length(b)
	if err != nil {
		return Record{}, 0, err
	}
	if len(b) < size {
		return Record{}, 0, ErrShort
	}
	b = b[:size:size]
	r, headEnd, err := header(b) // before the checksum: this is how most of what is no record is refused
	if err != nil {
		return Record{}, 0, err
	}
	if got, want := Checksum(b[4:]), binary.LittleEndian.Uint32(b); got != want {
		return Record{}, 0, fmt.Errorf("%w: its checksum is %08x, not %08x", ErrInvalid, got, want)
	}
	r.Head, r.Data = b[HeaderSize:headEnd:headEnd], b[headEnd:]
	return r, size, nil
}

// header reads the fixed part of a whole record, and returns where its head ends.
func header(b []byte) (r Record, headEnd int, err error) {
	head := binary.LittleEndian.Uint32(b[32:])
	if uint64(head) > uint64(len(b)-HeaderSize) {
		return r, 0, fmt.Errorf("%w: a head of %d bytes in a record of %d", ErrInvalid, head, len(b))
	}
	r = Record{
		Kind: Kind(b[8]), Flags: Flags(b[9]),
		Seq:   binary.LittleEndian.Uint64(b[12:]),
		Time:  int64(binary.LittleEndian.Uint64(b[20:])),
		Count: binary.LittleEndian.Uint32(b[28:]),
	}
	if r.Kind < Event || r.Kind > Stop {
		return r, 0, fmt.Errorf("%w: its kind is %d", ErrInvalid, r.Kind)
	}
	return r, HeaderSize + int(head), nil
}

package segment

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/informd/informd/pkg/journal/internal/record"
)

// Entry describes one record of a segment, in 50 bytes of an index file.
type Entry struct {
	Key record.Hash
	// Seq is the sequence of the record.
	Seq uint64
	// Time is the time of the append, in microseconds since 1970.
	Time                int64
	Offset, Size, Count uint32
	// Namespace is the place of the namespace in the table of its index; see [Index.NamespaceOf].
	Namespace uint32
	Kind      record.Kind
	Flags     record.Flags
}

const entrySize = 50

// Index is the content of an index file: the records of a segment in their order, and the heads
// of those that were the last of their key when it was written.
type Index struct {
	// Of is the segment.
	Of Header
	// Entries are the records, in their order.
	Entries []Entry
	// Size is the length of the segment in bytes.
	Size uint32
	// Parts are where the heads are, once the index was encoded or read.
	Parts []Part
	// Sum is the checksum of the file, then. Segments of one log whose sums are equal are the same: it is over what
	// the segment covers, and over the key, sequence, size and time of each record.
	Sum uint32

	namespaces map[string]uint32 // only while it grows
	names      []string          // of namespaces
	heads      []byte            // while it grows
	headEnd    []uint32
}

// Part is the place of the heads of one target in an index file. Those of records without a target
// are the part of "".
type Part struct {
	Target         string
	Offset, Length uint32
	// sum is the checksum of the bytes, for those that are read once more. It is not in the file,
	// which has one over all.
	sum uint32
}

// Head is the head of a record in an index file.
type Head struct {
	// Entry is the place of the record in [Index.Entries].
	Entry uint32
	Seq   uint64
	// Time is that of the record, in microseconds since 1970.
	Time int64
	Head []byte
}

// NewIndex returns the index of an empty segment, with memory for as many records as like has, which may be
// nil: segments of one log have about as many.
func NewIndex(of Header, like *Index) *Index {
	x := &Index{Of: of, Size: HeaderSize, namespaces: map[string]uint32{}}
	if like != nil {
		x.Entries, x.headEnd = make([]Entry, 0, len(like.Entries)), make([]uint32, 0, len(like.Entries))
		x.heads = make([]byte, 0, len(like.heads))
	}
	return x
}

// Add adds a record at the end of the segment, and sets the entry's offset and namespace. The head
// may be nil if [Index.Append] is not to write it.
func (x *Index) Add(e Entry, namespace string, head []byte) {
	e.Offset, e.Namespace = x.Size, x.number(namespace)
	x.Size += e.Size
	x.Entries = append(x.Entries, e)
	x.heads = append(x.heads, head...)
	x.headEnd = append(x.headEnd, uint32(len(x.heads)))
}

func (x *Index) number(namespace string) uint32 {
	n, known := x.namespaces[namespace]
	if !known {
		n = uint32(len(x.names))
		x.names = append(x.names, namespace)
		x.namespaces[namespace] = n
	}
	return n
}

// NamespaceOf returns the namespace of an entry, empty for cluster-scoped objects and for records that
// are no events of objects.
func (x *Index) NamespaceOf(e *Entry) string {
	if int(e.Namespace) >= len(x.names) {
		return ""
	}
	return x.names[e.Namespace]
}

// Head returns the head of a record that [Index.Add] got.
func (x *Index) Head(i int) []byte {
	from := uint32(0)
	if i > 0 {
		from = x.headEnd[i-1]
	}
	return x.heads[from:x.headEnd[i]]
}

// The layout of an index file: magic, id of the log, first sequence, number, generation and size of
// the segment, numbers of namespaces, entries and parts, last number that the segment covers; the namespaces; the
// entries; the parts' targets and lengths; the heads; CRC32C of all before.
const indexHeader = 8 + 16 + 8 + 7*4

// Append appends the bytes of the index file. Keep returns the target of a record whose head is to
// be in it, "" for a record that belongs to none.
func (x *Index) Append(dst []byte, keep func(i int) (target string, ok bool)) []byte {
	var targets []string
	var heads [][]byte
	at := map[string]int{}
	for i := range x.Entries {
		target, ok := keep(i)
		if !ok {
			continue
		}
		n, known := at[target]
		if !known {
			n = len(targets)
			at[target] = n
			targets, heads = append(targets, target), append(heads, nil)
		}
		heads[n] = x.appendHead(heads[n], i)
	}
	start := len(dst)
	dst = slices.Grow(dst, indexHeader+len(x.Entries)*entrySize)
	dst = append(append(dst, indexMagic...), x.Of.ID[:]...)
	dst = binary.LittleEndian.AppendUint64(dst, x.Of.First)
	for _, n := range []int{int(x.Of.Number), int(x.Of.Generation), int(x.Size), len(x.names), len(x.Entries), len(targets), int(x.Of.Through)} {
		dst = binary.LittleEndian.AppendUint32(dst, uint32(n))
	}
	for _, name := range x.names {
		dst = appendText(dst, []byte(name))
	}
	for i := range x.Entries {
		dst = appendEntry(dst, &x.Entries[i])
	}
	x.Parts = nil
	for i, target := range targets {
		dst = binary.AppendUvarint(appendText(dst, []byte(target)), uint64(len(heads[i])))
		x.Parts = append(x.Parts, Part{Target: target, Length: uint32(len(heads[i])), sum: record.Checksum(heads[i])})
	}
	for i, part := range heads {
		x.Parts[i].Offset = uint32(len(dst) - start)
		dst = append(dst, part...)
	}
	x.Sum = record.Checksum(dst[start:])
	return binary.LittleEndian.AppendUint32(dst, x.Sum)
}

func (x *Index) appendHead(dst []byte, i int) []byte {
	e := &x.Entries[i]
	for _, n := range []uint64{uint64(i), e.Seq, uint64(e.Time)} {
		dst = binary.AppendUvarint(dst, n)
	}
	return appendText(dst, x.Head(i))
}

func appendText(dst, text []byte) []byte {
	return append(binary.AppendUvarint(dst, uint64(len(text))), text...)
}

func appendEntry(dst []byte, e *Entry) []byte {
	dst = append(dst, e.Key[:]...)
	dst = binary.LittleEndian.AppendUint64(dst, e.Seq)
	dst = binary.LittleEndian.AppendUint64(dst, uint64(e.Time))
	for _, n := range []uint32{e.Offset, e.Size, e.Count, e.Namespace} {
		dst = binary.LittleEndian.AppendUint32(dst, n)
	}
	return append(dst, byte(e.Kind), byte(e.Flags))
}

// ParseIndex reads the index file of a segment with that header. Its error wraps [ErrInvalid].
func ParseIndex(b []byte, of Header) (*Index, error) {
	if len(b) < indexHeader+4 || !bytes.HasPrefix(b, []byte(indexMagic)) {
		return nil, fmt.Errorf("%w: %s is no index file of this format", ErrInvalid, of.Index())
	}
	b, sum := b[:len(b)-4], binary.LittleEndian.Uint32(b[len(b)-4:])
	if record.Checksum(b) != sum {
		return nil, fmt.Errorf("%w: %s has a wrong checksum", ErrInvalid, of.Index())
	}
	number := func(i int) uint32 { return binary.LittleEndian.Uint32(b[32+4*i:]) }
	if [16]byte(b[8:]) != of.ID || binary.LittleEndian.Uint64(b[24:]) != of.First || of.Name != (Name{number(0), number(1)}) {
		return nil, fmt.Errorf("%w: %s is that of another segment", ErrInvalid, of.Index())
	}
	x := &Index{Of: of, Size: number(2), Sum: sum}
	rest := reader{left: b[indexHeader:]}
	for i := uint32(0); i < number(3) && !rest.bad; i++ {
		x.names = append(x.names, string(rest.text()))
	}
	entries := rest.bytes(uint64(number(4)) * entrySize)
	x.Entries = make([]Entry, len(entries)/entrySize)
	for i := range x.Entries {
		x.Entries[i] = parseEntry(entries[i*entrySize:])
	}
	for i := uint32(0); i < number(5) && !rest.bad; i++ {
		x.Parts = append(x.Parts, Part{Target: string(rest.text()), Length: uint32(rest.number())})
	}
	at := len(b) - len(rest.left)
	for i := range x.Parts {
		x.Parts[i].Offset = uint32(at)
		at += int(x.Parts[i].Length)
	}
	if rest.bad || at != len(b) {
		return nil, fmt.Errorf("%w: %s is cut off", ErrInvalid, of.Index())
	}
	for i := range x.Parts {
		p := &x.Parts[i]
		p.sum = record.Checksum(b[p.Offset:][:p.Length])
	}
	return x, nil
}

func parseEntry(b []byte) Entry {
	number := func(at int) uint32 { return binary.LittleEndian.Uint32(b[at:]) }
	return Entry{
		Key: record.Hash(b[:16]), Seq: binary.LittleEndian.Uint64(b[16:]), Time: int64(binary.LittleEndian.Uint64(b[24:])),
		Offset: number(32), Size: number(36), Count: number(40), Namespace: number(44), Kind: record.Kind(b[48]), Flags: record.Flags(b[49]),
	}
}

// Heads returns the heads in the bytes of the part, as they were read from the file. Its error wraps
// [ErrInvalid]: the bytes are others than when the file was encoded or parsed.
func (p *Part) Heads(bytes []byte) (heads []Head, err error) {
	if len(bytes) != int(p.Length) || record.Checksum(bytes) != p.sum {
		return nil, fmt.Errorf("%w: its index file has changed", ErrInvalid)
	}
	for rest := (reader{left: bytes}); len(rest.left) > 0; {
		h := Head{Entry: uint32(rest.number()), Seq: rest.number(), Time: int64(rest.number()), Head: rest.text()}
		if rest.bad {
			return nil, fmt.Errorf("%w: its index file has no heads", ErrInvalid)
		}
		heads = append(heads, h)
	}
	return heads, nil
}

// reader reads lengths and texts. It is bad after the bytes ended too early.
type reader struct {
	left []byte
	bad  bool
}

func (r *reader) number() uint64 {
	n, size := binary.Uvarint(r.left)
	if size <= 0 {
		r.left, r.bad = nil, true
		return 0
	}
	r.left = r.left[size:]
	return n
}

func (r *reader) bytes(n uint64) []byte {
	if n > uint64(len(r.left)) {
		r.left, r.bad = nil, true
		return nil
	}
	b := r.left[:n:n]
	r.left = r.left[n:]
	return b
}

func (r *reader) text() []byte { return r.bytes(r.number()) }

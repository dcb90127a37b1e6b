package index

import (
	"encoding/binary"
	"encoding/hex"
	"strings"
)

// texts are the names of a target's objects, one after the other in large pieces. Written
// text is never overwritten: strings stay valid after their entry is removed. Once more than
// half of the text belongs to removed entries, the rest moves together.
type texts struct {
	pieces []string
	last   *strings.Builder // writes the last piece
	size   int              // bytes in the pieces, those of removed entries included
	live   int
	old    []string // while the rest moves
}

// pieceSize is the size of a piece once there is much text; larger text has a separate
// piece. Most targets have few objects: the first pieces are smaller.
const (
	pieceSize  = 32 << 10
	firstPiece = 512
)

// place is where an entry's text is: the lengths of namespace, name and uid as varints, then these. Pieces count from 1:
// the zero place is nowhere.
type place struct{ piece, offset uint32 }

// split returns the text at a place as a whole, and its parts.
func split(pieces []string, p place) (whole, namespace, name, uid string) {
	text := pieces[p.piece-1][p.offset:]
	at, lens := 0, [3]int{}
	for i := range lens {
		n, size := binary.Uvarint([]byte(text[at:min(at+binary.MaxVarintLen64, len(text))]))
		lens[i], at = int(n), at+size
	}
	rest := text[at:]
	end := lens[0] + lens[1]
	return text[:at+end+lens[2]], rest[:lens[0]], rest[lens[0]:end], rest[end : end+lens[2]]
}

// add writes an object's names.
func (t *texts) add(id ID) place {
	parts := [...]string{id.Namespace, id.Name, id.UID}
	var lens [len(parts) * binary.MaxVarintLen64]byte
	head := lens[:0]
	for _, part := range parts {
		head = binary.AppendUvarint(head, uint64(len(part)))
	}
	p, size := t.write(string(head), parts[0], parts[1], parts[2])
	t.live += size
	return p
}

// remove counts a text as removed.
func (t *texts) remove(p place) {
	whole, _, _, _ := split(t.pieces, p)
	t.live -= len(whole)
}

// wasteful reports whether it is time to move the rest together.
func (t *texts) wasteful() bool { return t.size > 2*t.live+8*firstPiece }

// begin, move for every text that is there, and end move the rest together.
func (t *texts) begin() {
	t.old = t.pieces
	t.pieces, t.last, t.size = nil, nil, 0
}

func (t *texts) move(p place) place {
	whole, _, _, _ := split(t.old, p)
	p, _ = t.write(whole)
	return p
}

func (t *texts) end() { t.old = nil }

// write writes the parts and returns their place, and their size together.
func (t *texts) write(parts ...string) (p place, size int) {
	for _, part := range parts {
		size += len(part)
	}
	if t.last == nil || t.last.Cap()-t.last.Len() < size {
		t.last = new(strings.Builder)
		t.last.Grow(max(size, min(max(t.size, firstPiece), pieceSize)))
		t.pieces = append(t.pieces, "")
	}
	p = place{uint32(len(t.pieces)), uint32(t.last.Len())}
	for _, part := range parts {
		t.last.WriteString(part)
	}
	t.pieces[p.piece-1] = t.last.String()
	t.size += size
	return p, size
}

func (t *texts) namespace(p place) string {
	_, namespace, _, _ := split(t.pieces, p)
	return namespace
}

func (t *texts) name(p place) string {
	_, _, name, _ := split(t.pieces, p)
	return name
}

func (t *texts) uid(p place) string {
	_, _, _, uid := split(t.pieces, p)
	return uid
}

// is reports whether a text is of that name.
func (t *texts) is(p place, namespace, name string) bool {
	_, n, m, _ := split(t.pieces, p)
	return n == namespace && m == name
}

// uuidLen is the length of a UUID's text, with hyphens at 8, 13, 18 and 23.
const uuidLen = 36

// parseUUID reads a UUID in lower case, as formatUUID writes it. It refuses other forms.
func parseUUID(s string) (uuid [16]byte, ok bool) {
	if len(s) != uuidLen || s[8] != '-' || s[13] != '-' || s[18] != '-' || s[23] != '-' {
		return uuid, false
	}
	at := 0
	for i := range uuid {
		if at == 8 || at == 13 || at == 18 || at == 23 {
			at++
		}
		high, low := nibble(s[at]), nibble(s[at+1])
		if high|low > 15 {
			return uuid, false
		}
		uuid[i] = high<<4 | low
		at += 2
	}
	return uuid, true
}

// nibble is the value of a hexadecimal digit in lower case, more than 15 if it is none.
func nibble(c byte) byte {
	switch {
	case '0' <= c && c <= '9':
		return c - '0'
	case 'a' <= c && c <= 'f':
		return c - 'a' + 10
	}
	return 255
}

func formatUUID(uuid *[16]byte) string {
	var b [uuidLen]byte
	hex.Encode(b[:], uuid[:4])
	hex.Encode(b[9:], uuid[4:6])
	hex.Encode(b[14:], uuid[6:8])
	hex.Encode(b[19:], uuid[8:10])
	hex.Encode(b[24:], uuid[10:])
	b[8], b[13], b[18], b[23] = '-', '-', '-', '-'
	return string(b[:])
}

package index

import (
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

// place is where an entry's text is: namespace, name and uid, by their lengths.
type place struct {
	piece, offset        uint32
	namespace, name, uid uint32
}

func (p place) len() int { return int(p.namespace) + int(p.name) + int(p.uid) }

// add writes an object's names.
func (t *texts) add(id ID) place {
	p := place{namespace: uint32(len(id.Namespace)), name: uint32(len(id.Name)), uid: uint32(len(id.UID))}
	t.live += p.len()
	return t.write(p, id.Namespace, id.Name, id.UID)
}

// remove counts a text as removed.
func (t *texts) remove(p place) { t.live -= p.len() }

// wasteful reports whether it is time to move the rest together.
func (t *texts) wasteful() bool { return t.size > 2*t.live+8*firstPiece }

// begin, move for every text that is there, and end move the rest together.
func (t *texts) begin() {
	t.old = t.pieces
	t.pieces, t.last, t.size = nil, nil, 0
}

func (t *texts) move(p place) place {
	return t.write(p, t.old[p.piece][p.offset:int(p.offset)+p.len()])
}

func (t *texts) end() { t.old = nil }

// write writes the parts, whose length together is that of p, and returns their place.
func (t *texts) write(p place, parts ...string) place {
	n := p.len()
	if t.last == nil || t.last.Cap()-t.last.Len() < n {
		t.last = new(strings.Builder)
		t.last.Grow(max(n, min(max(t.size, firstPiece), pieceSize)))
		t.pieces = append(t.pieces, "")
	}
	p.piece, p.offset = uint32(len(t.pieces)-1), uint32(t.last.Len())
	for _, part := range parts {
		t.last.WriteString(part)
	}
	t.pieces[p.piece] = t.last.String()
	t.size += n
	return p
}

func (t *texts) namespace(p place) string {
	return t.pieces[p.piece][p.offset : p.offset+p.namespace]
}

func (t *texts) name(p place) string {
	return t.pieces[p.piece][p.offset+p.namespace : p.offset+p.namespace+p.name]
}

func (t *texts) uid(p place) string {
	return t.pieces[p.piece][p.offset+p.namespace+p.name : int(p.offset)+p.len()]
}

// is reports whether a text is of that name.
func (t *texts) is(p place, namespace, name string) bool {
	return int(p.namespace) == len(namespace) && int(p.name) == len(name) &&
		t.namespace(p) == namespace && t.name(p) == name
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

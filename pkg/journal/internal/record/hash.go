package record

import (
	"crypto/sha256"
	"encoding/binary"
	"strconv"

	"github.com/informd/informd/pkg/event"
)

// Hash stands for a key: an object, a kind of control event of a target, the checkpoint of a target, or
// the name of a sink. It is half of a SHA-256 over a secret of the log and the key, so that no author of
// objects can choose names whose hashes are equal.
type Hash [16]byte

// Hasher makes the hashes of the log with that secret.
type Hasher [16]byte

// The kinds of keys.
const (
	ofObject  = 'o'
	ofControl = 'c'
	ofRecord  = 'r'
	ofLetter  = 'l'
)

// Event returns the hash of an event's key: of the object, regardless of its UID, or of the
// operation and target of a control event.
func (h Hasher) Event(e *event.Event) Hash {
	if e.Op.Control() {
		return h.sum(ofControl, string(e.Op), e.Target)
	}
	return h.sum(ofObject, e.Group, e.Resource, e.Namespace, e.Name)
}

// Record returns the hash of a record that is no event: of its kind and name.
func (h Hasher) Record(kind Kind, name string) Hash {
	return h.sum(ofRecord, string(byte(kind)), name)
}

// Letter returns the hash of a dead letter of a sink.
func (h Hasher) Letter(sink string, number uint32) Hash {
	return h.sum(ofLetter, sink, strconv.FormatUint(uint64(number), 10))
}

// sum hashes the texts with their lengths, so that no two lists of texts are the same bytes.
func (h Hasher) sum(of byte, texts ...string) Hash {
	var scratch [256]byte
	b := append(append(scratch[:0], h[:]...), of)
	for _, text := range texts {
		b = append(binary.AppendUvarint(b, uint64(len(text))), text...)
	}
	sum := sha256.Sum256(b)
	return Hash(sum[:16])
}

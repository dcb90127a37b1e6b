package frame

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"hash"
	"sync"
)

const (
	redactedPrefix = "hmac-sha256:"
	// hashBytes is how much of the hash shows: enough that two values never show
	// as equal by chance.
	hashBytes    = 16
	redactedSize = len(`"`) + len(redactedPrefix) + 2*hashBytes + len(`"`)
)

// Redactor replaces values, those of Secrets for one, by a keyed hash: a change shows,
// the value does not, and without the key it cannot be found by trying. The hash
// covers the object's namespace and name and the value's field and key, so that
// equal values in two places do not show as equal. It is safe for concurrent use.
type Redactor struct {
	key    []byte
	hashes sync.Pool // of hash.Hash, HMAC-SHA256 with the key
	// plain are the annotations of Secrets whose values stay.
	plain keys
}

// NewRedactor returns the redactor with that key, of which it keeps a copy. The values of
// the plain annotations of Secrets, a name each or a prefix with a star behind it, stay
// beside those that always do.
func NewRedactor(key []byte, plain ...string) *Redactor {
	return &Redactor{key: bytes.Clone(key), plain: newKeys(append(plainAnnotations(), plain...)...)}
}

// hash appends the text that stands for a value of the kind at a place in the object o:
// redactedSize bytes with the quotes around it, which are the caller's.
func (r *Redactor) hash(dst []byte, o Object, kind, field, key string, value []byte) []byte {
	message := make([]byte, 0, 256+len(value))
	for _, part := range [...]string{kind, o.Namespace, o.Name, field, key} {
		// The length before each part keeps ("a","bc") and ("ab","c") apart.
		message = binary.BigEndian.AppendUint64(message, uint64(len(part)))
		message = append(message, part...)
	}
	message = append(message, value...)

	h, ok := r.hashes.Get().(hash.Hash)
	if !ok {
		h = hmac.New(sha256.New, r.key)
	}
	defer r.hashes.Put(h)
	h.Reset()
	h.Write(message)
	var sum [sha256.Size]byte
	dst = append(dst, redactedPrefix...)
	return hex.AppendEncode(dst, h.Sum(sum[:0])[:hashBytes])
}

// made reports whether a text is what hash appends.
func made(text []byte) bool {
	digits, ok := bytes.CutPrefix(text, []byte(redactedPrefix))
	return ok && len(digits) == 2*hashBytes && len(bytes.Trim(digits, "0123456789abcdef")) == 0
}

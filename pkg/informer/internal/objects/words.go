package objects

import (
	"encoding/binary"
	"math/bits"
	"sync/atomic"
)

const (
	// wordsKept and longestWord limit the memory of words to 1.3 MB.
	wordsKept   = 4096
	longestWord = 128
)

// words are texts that the objects of a resource share, as "True" and the names of fields. They take
// no memory before their first use. They may be used concurrently.
type words struct {
	table atomic.Pointer[[wordsKept]slot]
}

// slot has the newest of the texts with its hash that came twice without another one in between.
type slot struct {
	known atomic.Pointer[word]
	seen  atomic.Uint32 // hash of the newest text that is not known
}

// word is a text.
type word struct {
	raw   string // the text in JSON
	text  string
	value any // text: making an any of a string allocates
}

// slot returns the slot of a text in JSON.
func (w *words) slot(raw []byte) (*slot, uint32) {
	table := w.table.Load()
	if table == nil {
		table = new([wordsKept]slot)
		w.table.Store(table) // of two at once, one is lost
	}
	hash := hashOf(raw)
	return &table[hash%wordsKept], hash
}

// find returns the word of a text in JSON, nil if it is not known.
func (s *slot) find(raw []byte) *word {
	if known := s.known.Load(); known != nil && known.raw == string(raw) {
		return known
	}
	return nil
}

// add makes the word known if it was the newest unknown one already: most texts that come once,
// such as UIDs, never come again.
func (s *slot) add(hash uint32, raw []byte, w word) {
	if s.seen.Swap(hash) == hash {
		known := new(word) // not w itself, which each call would allocate then
		if *known = w; known.text != string(raw) {
			known.raw = string(raw)
		} else {
			known.raw = known.text
		}
		s.known.Store(known)
	}
}

// hashOf hashes the length and up to 24 bytes of a text. Equal hashes cost time only.
func hashOf(text []byte) uint32 {
	var h uint64
	if n := len(text); n >= 8 {
		h = binary.LittleEndian.Uint64(text) ^ bits.RotateLeft64(binary.LittleEndian.Uint64(text[n-8:]), 25) ^ bits.RotateLeft64(binary.LittleEndian.Uint64(text[(n-8)/2:]), 41)
	} else {
		for _, c := range text {
			h = h<<8 | uint64(c)
		}
	}
	h = (h ^ uint64(len(text))<<56) * 0x9E3779B97F4A7C15
	return uint32(h >> 32)
}

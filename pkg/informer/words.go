package informer

import (
	"encoding/binary"
	"math/bits"
	"sync/atomic"
)

const (
	// wordsKept and longestWord limit the memory of words to 400 KB.
	wordsKept   = 2048
	longestWord = 128
)

// words are texts that the objects of a resource share, as "True" and the names of fields. It holds
// the newest text of each slot. The zero value is empty, and takes no memory before its first use.
// It may be used concurrently.
type words struct {
	slots atomic.Pointer[[wordsKept]atomic.Pointer[word]]
}

// word is a text, and the same as a value: making an any of a string allocates.
type word struct {
	text  string
	value any
}

// get returns the word of a text, which it copies.
func (w *words) get(text []byte) word {
	if len(text) > longestWord {
		return newWord(text)
	}
	slots := w.slots.Load()
	if slots == nil {
		slots = new([wordsKept]atomic.Pointer[word])
		w.slots.Store(slots) // of two at once, one is lost
	}
	slot := &slots[slotOf(text)]
	if known := slot.Load(); known != nil && known.text == string(text) {
		return *known
	}
	n := newWord(text)
	slot.Store(&n)
	return n
}

func newWord(text []byte) word {
	s := string(text)
	return word{s, s}
}

// slotOf hashes the length and up to 24 bytes of a text. Equal hashes cost time only.
func slotOf(text []byte) uint64 {
	var h uint64
	if n := len(text); n >= 8 {
		h = binary.LittleEndian.Uint64(text) ^ bits.RotateLeft64(binary.LittleEndian.Uint64(text[n-8:]), 25) ^ bits.RotateLeft64(binary.LittleEndian.Uint64(text[(n-8)/2:]), 41)
	} else {
		for _, c := range text {
			h = h<<8 | uint64(c)
		}
	}
	h = (h ^ uint64(len(text))<<56) * 0x9E3779B97F4A7C15
	return h >> 32 % wordsKept
}

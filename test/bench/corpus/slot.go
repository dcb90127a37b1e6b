package corpus

import (
	"bytes"
	"fmt"
	"slices"
)

// slot is a kind of number in an object, of fixed width in decimal digits.
type slot int

const (
	indexSlot slot = iota
	namespaceSlot
	revisionSlot
	sentSlot
)

// placeholder is what stands for the number in a template. It is as wide as the
// number, and passes through JSON unchanged.
func (s slot) placeholder() string {
	switch s {
	case indexSlot:
		return "@INDEX@@"
	case namespaceSlot:
		return "@NS"
	case revisionSlot:
		return "@REVISION@"
	default:
		return "@SENT@@@@@@@@@@@@@@"
	}
}

func (s slot) width() int { return len(s.placeholder()) }

func (s slot) of(o Object) uint64 {
	switch s {
	case indexSlot:
		return uint64(o.Index)
	case namespaceSlot:
		return uint64(o.Index % Namespaces)
	case revisionSlot:
		return o.Revision
	default:
		return uint64(o.Sent)
	}
}

// rendered is an object in one form, with placeholders at the places.
type rendered struct {
	content []byte
	places  []place
}

type place struct {
	at   int
	slot slot
}

func newRendered(content []byte) (rendered, error) {
	r := rendered{content: slices.Clip(content)}
	for _, s := range []slot{indexSlot, namespaceSlot, revisionSlot, sentSlot} {
		found := 0
		for at := 0; ; at += s.width() {
			next := bytes.Index(content[at:], []byte(s.placeholder()))
			if next < 0 {
				break
			}
			at += next
			r.places = append(r.places, place{at, s})
			found++
		}
		if found == 0 {
			return r, fmt.Errorf("no %s in %.200s", s.placeholder(), content)
		}
	}
	return r, nil
}

func (r *rendered) append(dst []byte, o Object) []byte {
	begin := len(dst)
	dst = append(dst, r.content...)
	for _, p := range r.places {
		digits, n := dst[begin+p.at:][:p.slot.width()], p.slot.of(o)
		for i := len(digits) - 1; i >= 0; i-- {
			digits[i] = '0' + byte(n%10)
			n /= 10
		}
	}
	return dst
}

package record

import (
	"encoding/base64"
	"encoding/binary"
	"maps"
	"slices"
)

// MaxReturned bounds the deletions that the record of a sink names, and the time that it
// takes. With more, a deletion may come twice, with the same id, if informd ends before the
// cursor has passed its copy.
const MaxReturned = 1024

// Returned has the deletions that a cursor returned while record.Jumped is set: by the
// sequence of the original, the sequence under which it was returned.
type Returned map[uint64]uint64

// UpTo names the deletions whose delivery is committed up to a sequence, for the record
// of the sink: the differences of their sequences as varints, in base64. [cursor.save] does
// not ask for it while there are more than maxReturned.
func (r Returned) UpTo(committed uint64) string {
	originals := slices.Collect(maps.Keys(r))
	originals = slices.DeleteFunc(originals, func(original uint64) bool { return r[original] > committed })
	slices.Sort(originals)
	var text []byte
	last := uint64(0)
	for _, original := range originals {
		text = binary.AppendUvarint(text, original-last)
		last = original
	}
	return base64.RawStdEncoding.EncodeToString(text)
}

// Before drops the deletions that come again when all from next on is read again.
func (r Returned) Before(next uint64) {
	maps.DeleteFunc(r, func(original, at uint64) bool { return original >= next || at >= next })
}

// ReturnedFrom reads the text of UpTo. An unreadable text names no deletion: these may
// come twice.
func ReturnedFrom(text string) Returned {
	data, err := base64.RawStdEncoding.DecodeString(text)
	if err != nil || len(data) == 0 {
		return nil
	}
	all, last := Returned{}, uint64(0)
	for len(data) > 0 && len(all) < MaxReturned {
		step, n := binary.Uvarint(data)
		if n <= 0 {
			return all
		}
		data, last = data[n:], last+step
		all[last] = 0
	}
	return all
}

package storefiles

import (
	"encoding/binary"
	"fmt"
	"path/filepath"
	"slices"

	"github.com/nats-io/nats-server/v2/server/avl"
)

// revived finds the messages of a stream that a server brings back when it reads its
// blocks anew, as it does after a crash. That a message was purged the server writes
// down (a tombstone), that one had to go for a later one of its subject it does not.
// So the latter are back where the others stay away: an object that is long gone ends
// with one of its old changes. And if such a block is then compacted, the server (2.15.2)
// looks for ever for the first of them as soon as the subject is full again, and serves
// nobody meanwhile.
//
// It relies on that messages go in the order of their subject only. What is older than a
// purged one has gone, too; and so has, when the server wrote its index, what was not among
// the newest of its subject, as many as the index has. What it does not find are those
// whose subject was purged after that, if the block of the purged ones is gone already.
//
// The blocks have to be seen from the last to the first.
type revived struct {
	index      index // used up as messages are seen
	tombstones avl.SequenceSet
	purged     map[string]bool // the subjects that have one with a tombstone
	block      []sighting      // the messages of the block that is being read
	// before are messages from before a purged one, beyond those that the index counts no
	// more.
	before, beyond []grave
}

// sighting is a message, in the block's own memory.
type sighting struct {
	grave
	subject []byte
}

// grave is what a tombstone says: which message, and of when it was.
type grave struct {
	sequence uint64
	at       int64 // nanoseconds since 1970
}

// saw takes note of a record of the block.
func (r *revived) saw(is record) {
	switch {
	case !is.message():
		r.tombstones.Insert(is.number())
	case !is.erased():
		if n := len(r.block); n > 0 && is.number() <= r.block[n-1].sequence {
			return // the server passes over it
		}
		at := int64(binary.LittleEndian.Uint64(is.raw[12:]))
		r.block = append(r.block, sighting{grave{is.number(), at}, is.subject()})
	}
}

// endBlock judges the messages of the block, the newest first: a tombstone is in the
// block of its message or behind it.
func (r *revived) endBlock() {
	for _, s := range slices.Backward(r.block) {
		switch {
		case r.tombstones.Exists(s.sequence):
			r.purged[string(s.subject)] = true
		case r.purged[string(s.subject)]:
			r.before = append(r.before, s.grave)
		case s.sequence > r.index.last:
		case r.index.messages[string(s.subject)] == 0:
			r.beyond = append(r.beyond, s.grave)
		default:
			r.index.messages[string(s.subject)]--
		}
	}
	clear(r.block) // it points into the memory of the block
	r.block = r.block[:0]
}

// missing returns the messages that need a tombstone. The server may have written its
// index without what was damaged: it counts only where nothing is.
func (r *revived) missing(sound bool) []grave {
	if !sound {
		return r.before
	}
	return append(r.before, r.beyond...)
}

// blockLimit is how large the server lets a block become, in bytes.
const blockLimit = 8 << 20

// addBlocks puts blocks of the tombstones behind the last one, or an empty one if there
// are none. Either has the server read all blocks instead of believing its index, which
// counts messages that are not there any more: it takes the index for an older one then,
// and still learns from it how far the stream had come. With the index gone, the
// sequences of messages lost at the end would be given out again.
func (i *Inspection) addBlocks(stream string, last uint32, missing []grave) error {
	reader := &BlockReader{Stream: stream}
	for first := true; first || len(missing) > 0; first = false {
		last++
		reader.open(last)
		n := min(len(missing), blockLimit/emptyRecord)
		content := make([]byte, 0, n*emptyRecord)
		for _, g := range missing[:n] {
			content = append(content, reader.mark(g.sequence|tombstoneFlag, g.at)...)
		}
		missing = missing[n:]
		if err := replaceFile(filepath.Join(i.Store.Messages(stream), BlockName(last)), content, true); err != nil {
			return fmt.Errorf("have the index of stream %s rebuilt: %w", stream, err)
		}
	}
	return nil
}

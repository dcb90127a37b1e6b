package dynwatch

import "hash/maphash"

// entry is what is remembered of an object: enough to tell a change, a deletion
// and a re-creation apart, and nothing of its content. The strings are copies of
// their own; a slice of a frame would keep the whole frame in memory.
type entry struct {
	namespace, name, uid string
	// rv and ordinal are those of the object's last event.
	rv, ordinal uint64
	// hash is of the last event's object, 0 if that was before this process. Only a
	// rollback needs it: the same revision can then mean another state.
	hash uint64
	// epoch is that of the last event.
	epoch uint64
	// run is the last in which the object was announced anew, 0 if that is not known.
	run uint64
	// sweep is the number of the last sweep that saw the object.
	sweep uint32
}

// key is an object's place in the index.
func key(namespace, name string) string { return namespace + "/" + name }

// index holds the entries of one target. It belongs to the target's goroutine.
type index struct {
	entries map[string]*entry
	// passages are what change gates need of the entries, nil without gates.
	passages map[*entry]passage
	seed     maphash.Seed
	key      []byte // scratch, so that a look-up allocates nothing
}

func newIndex() *index {
	return &index{entries: make(map[string]*entry), seed: maphash.MakeSeed()}
}

func (x *index) get(namespace, name string) *entry {
	x.key = append(append(append(x.key[:0], namespace...), '/'), name...)
	return x.entries[string(x.key)]
}

func (x *index) put(e *entry) { x.entries[key(e.namespace, e.name)] = e }

func (x *index) remove(e *entry) {
	delete(x.entries, key(e.namespace, e.name))
	delete(x.passages, e)
}

func (x *index) len() int { return len(x.entries) }

func (x *index) hash(data []byte) uint64 { return maphash.Bytes(x.seed, data) }

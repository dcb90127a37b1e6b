package dynwatch

import (
	"hash/maphash"
	"iter"
	"math"
)

// entry is what is remembered of an object: enough to tell a change, a deletion
// and a re-creation apart, and nothing of its content. It has no pointers, so that
// the garbage collector has nothing to follow in an index of a million objects; the
// object's namespace, name and uid are asked of the index.
//
// An entry that was removed is used again for another object: what is kept beyond
// one step of the target is a [handle].
type entry struct {
	// rv and ordinal are those of the object's last event, 0 if nobody was told of it.
	rv, ordinal uint64
	// hash is of the last event's object, 0 if that was before this process. Only a
	// rollback needs it: the same revision can then mean another state.
	hash uint64
	// epoch is that of the last event.
	epoch uint64
	// run is the last in which the object was announced anew, 0 if that is not known.
	run uint64
	// uuid is the uid, unless that is not written as a UUID: then it is in the text.
	uuid [16]byte
	text place
	// sweep is the number of the last sweep that saw the object.
	sweep uint32
	// slot is the entry's place, serial what tells it from others there, 0 for none.
	slot, serial uint32
}

// handle names an entry, and none any more once that is removed. The zero value is
// that of no entry.
type handle struct{ slot, serial uint32 }

// names are how an object is told from others.
type names struct{ namespace, name, uid string }

// key is an object's name in a target.
func key(namespace, name string) string { return namespace + "/" + name }

const (
	// slabLen is how many entries are allocated at a time: what fills 4 KiB.
	slabLen = 46
	// firstLen is how many are allocated at first: most custom resources have few objects.
	firstLen = 4
)

type slab [slabLen]entry

// index holds the entries of one target. It belongs to the target's goroutine. It
// does not become smaller than the most objects that it has held have made it, but
// for their text.
type index struct {
	// first and slabs never move, so that an *entry stays valid. First is nil without
	// entries.
	first *[firstLen]entry
	slabs []*slab
	free  []uint32
	used  uint32 // slots that were ever in use
	next  uint32 // the next entry's serial
	count int
	table table
	texts texts
	// passages are what change gates need of the entries, nil without gates.
	passages map[*entry]passage
	// states are the last states of objects that the log does not keep.
	states  lastStates
	seed    maphash.Seed
	bits    uint32 // those of a hash that count: all, but in a test
	scratch []byte
}

func newIndex() *index { return &index{seed: maphash.MakeSeed(), bits: math.MaxUint32} }

// get returns the entry of a name, nil if there is none.
func (x *index) get(namespace, name string) *entry {
	for p := x.table.begin(x.place(namespace, name)); ; p.next() {
		slot, ok := p.slot()
		if !ok {
			return nil
		}
		if e := x.at(slot); x.texts.is(e.text, namespace, name) {
			return e
		}
	}
}

// put makes an entry for an object that nobody was told of yet, in place of one of
// the same name. It keeps nothing of the strings.
func (x *index) put(id names) *entry {
	if e := x.get(id.namespace, id.name); e != nil {
		x.remove(e)
	}
	slot := x.take()
	e := x.at(slot)
	if x.next++; x.next == 0 { // that is none
		x.next++
	}
	*e = entry{slot: slot, serial: x.next}
	uuid, ok := parseUUID(id.uid)
	if ok {
		e.uuid, id.uid = uuid, ""
	}
	e.text = x.texts.add(id)
	x.table.put(x.place(id.namespace, id.name), slot)
	x.count++
	return e
}

// take returns a slot that is free.
func (x *index) take() uint32 {
	if n := len(x.free); n > 0 {
		slot := x.free[n-1]
		x.free = x.free[:n-1]
		return slot
	}
	slot := x.used
	switch {
	case slot == 0:
		x.first = new([firstLen]entry)
	case slot >= firstLen && (slot-firstLen)%slabLen == 0:
		x.slabs = append(x.slabs, new(slab))
	}
	x.used++
	return slot
}

func (x *index) at(slot uint32) *entry {
	if slot < firstLen {
		return &x.first[slot]
	}
	slot -= firstLen
	return &x.slabs[slot/slabLen][slot%slabLen]
}

// remove takes an entry out, if it is there. It must not be used after that.
func (x *index) remove(e *entry) {
	if e.serial == 0 {
		return
	}
	delete(x.passages, e)
	x.states.remove(e)
	x.table.remove(x.place(x.namespace(e), x.name(e)), e.slot)
	x.texts.remove(e.text)
	x.free = append(x.free, e.slot)
	*e = entry{}
	x.count--
	if x.texts.wasteful() {
		x.texts.begin()
		for e := range x.all() {
			e.text = x.texts.move(e.text)
		}
		x.texts.end()
	}
}

func (x *index) len() int { return x.count }

// all yields the entries in no order. Those that it yields may be removed meanwhile.
func (x *index) all() iter.Seq[*entry] {
	return func(yield func(*entry) bool) {
		for i := range min(x.used, firstLen) {
			if e := &x.first[i]; e.serial != 0 && !yield(e) {
				return
			}
		}
		for _, s := range x.slabs {
			for i := range s {
				if s[i].serial != 0 && !yield(&s[i]) {
					return
				}
			}
		}
	}
}

// namespace and name are what the entry was put under. The strings stay valid, and
// keep some text of other entries alive with them.
func (x *index) namespace(e *entry) string { return x.texts.namespace(e.text) }

func (x *index) name(e *entry) string { return x.texts.name(e.text) }

// uid returns the object's uid, made anew.
func (x *index) uid(e *entry) string {
	if e.text.uid > 0 {
		return x.texts.uid(e.text)
	}
	return formatUUID(&e.uuid)
}

// isUID is uid(e) == uid, and makes nothing.
func (x *index) isUID(e *entry, uid string) bool {
	if e.text.uid > 0 {
		return x.texts.uid(e.text) == uid
	}
	uuid, ok := parseUUID(uid)
	return ok && uuid == e.uuid
}

func (x *index) names(e *entry) names {
	return names{x.namespace(e), x.name(e), x.uid(e)}
}

// handle names an entry; nil has the zero value.
func (x *index) handle(e *entry) handle {
	if e == nil {
		return handle{}
	}
	return handle{e.slot, e.serial}
}

// of returns the entry that a handle names, nil if it is there no more.
func (x *index) of(h handle) *entry {
	if h.serial == 0 || h.slot >= x.used {
		return nil
	}
	if e := x.at(h.slot); e.serial == h.serial {
		return e
	}
	return nil
}

// place is where the table has a name, or close behind it.
func (x *index) place(namespace, name string) uint32 {
	x.scratch = append(append(append(x.scratch[:0], namespace...), '/'), name...)
	return uint32(maphash.Bytes(x.seed, x.scratch)>>32) & x.bits
}

func (x *index) hash(data []byte) uint64 { return maphash.Bytes(x.seed, data) }

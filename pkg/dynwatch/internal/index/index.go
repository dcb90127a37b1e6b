// Package index keeps what a target remembers of each object: the UID and the
// resourceVersion of its last event, and no content. It distinguishes a change, a deletion and a
// re-creation, and holds a million objects: an entry takes about 90 bytes, its names included, and no
// pointer. It knows nothing of Kubernetes.
package index

import (
	"hash/maphash"
	"iter"
	"math"
)

// Entry is one object. It has no pointers, so that the garbage collector has nothing to
// follow; the [Index] returns the object's namespace, name and UID.
//
// The index reuses a removed entry for another object: keep no pointer for longer than one step of
// the target.
type Entry struct {
	// RV and Ordinal are those of the object's last event, 0 without one.
	RV, Ordinal uint64
	// uuid is the UID in its usual form. Another form is in the text.
	uuid [16]byte
	text place // the zero place if no object is in the entry
	// Epoch is that of the last event.
	Epoch uint32
	// Sweep is the number of the last list comparison that saw the object, and Round that of the last one, or the
	// first of several that belong together, which announced it again. 0 if there was none.
	Sweep, Round uint32
	// next is one more than the slot of another entry with the same hash, 0 for none.
	next uint32
}

func (e *Entry) used() bool { return e.text != place{} }

// ID identifies an object of a target.
type ID struct{ Namespace, Name, UID string }

// Key joins namespace and name into one text.
func Key(namespace, name string) string { return namespace + "/" + name }

const (
	// slabLen is the number of entries per allocation: they fill 4 KiB.
	slabLen = 73
	// firstLen is the number in the first allocation: most custom resources have few objects.
	firstLen = 4
)

type slab [slabLen]Entry

// Index holds the entries of one target. One goroutine uses it at a time. Its memory shrinks
// only by the text of removed entries.
type Index struct {
	// first and slabs never move, so that an *Entry stays valid. First is nil without
	// entries.
	first *[firstLen]Entry
	slabs []*slab
	free  []uint32
	used  uint32 // slots that were ever in use
	count int
	// heads are the newest entries of each hash of names: one more than the slot, 0 for none. Their number is a power of
	// two. A map would take three times the memory.
	heads []uint32
	texts texts
	// skipped are the revisions that change filters skipped last, by entry.
	skipped map[*Entry]uint64
	seed    maphash.Seed
	bits    uint32 // mask of the hashes beside the number of heads; tests narrow it to force collisions
	scratch []byte
}

// New returns an empty index.
func New() *Index { return &Index{seed: maphash.MakeSeed(), bits: math.MaxUint32} }

// NewestOf is the newest revision of an epoch.
func (x *Index) NewestOf(epoch uint64) (newest uint64) {
	for e := range x.All() {
		if uint64(e.Epoch) == epoch {
			newest = max(newest, e.RV)
		}
	}
	return newest
}

// Reset removes all entries.
func (x *Index) Reset() { *x = *New() }

// Get returns the entry of a name, nil if there is none.
func (x *Index) Get(namespace, name string) *Entry {
	if x.count == 0 {
		return nil
	}
	for next := *x.head(namespace, name); next != 0; {
		e := x.at(next - 1)
		if x.texts.is(e.text, namespace, name) {
			return e
		}
		next = e.next
	}
	return nil
}

// Put makes an entry for an object without events, in place of one of the same name. It
// keeps nothing of the strings.
func (x *Index) Put(id ID) *Entry {
	if e := x.Get(id.Namespace, id.Name); e != nil {
		x.Remove(e)
	}
	if x.count == len(x.heads) {
		x.grow()
	}
	slot := x.take()
	e := x.at(slot)
	*e = Entry{}
	uuid, ok := parseUUID(id.UID)
	if ok {
		e.uuid, id.UID = uuid, ""
	}
	e.text = x.texts.add(id)
	x.link(e, slot)
	x.count++
	return e
}

// link makes an entry the first of those whose names have its hash.
func (x *Index) link(e *Entry, slot uint32) {
	head := x.head(x.Namespace(e), x.Name(e))
	e.next, *head = *head, slot+1
}

// unlink takes an entry from those whose names have its hash, and returns its slot.
func (x *Index) unlink(e *Entry) (slot uint32) {
	next := x.head(x.Namespace(e), x.Name(e))
	for x.at(*next-1) != e {
		next = &x.at(*next - 1).next
	}
	slot = *next - 1
	*next = e.next
	return slot
}

// grow doubles the heads. A million entries wait for about a fifth of a second.
func (x *Index) grow() {
	x.heads = make([]uint32, max(firstLen, 2*len(x.heads)))
	for slot := range x.used {
		if e := x.at(slot); e.used() {
			x.link(e, slot)
		}
	}
}

// take returns a free slot.
func (x *Index) take() uint32 {
	if n := len(x.free); n > 0 {
		slot := x.free[n-1]
		x.free = x.free[:n-1]
		return slot
	}
	slot := x.used
	switch {
	case slot == 0:
		x.first = new([firstLen]Entry)
	case slot >= firstLen && (slot-firstLen)%slabLen == 0:
		x.slabs = append(x.slabs, new(slab))
	}
	x.used++
	return slot
}

func (x *Index) at(slot uint32) *Entry {
	if slot < firstLen {
		return &x.first[slot]
	}
	slot -= firstLen
	return &x.slabs[slot/slabLen][slot%slabLen]
}

// Remove removes an entry. It does nothing if that is removed already.
func (x *Index) Remove(e *Entry) {
	if !e.used() {
		return
	}
	delete(x.skipped, e)
	x.free = append(x.free, x.unlink(e))
	x.texts.remove(e.text)
	*e = Entry{}
	x.count--
	if x.texts.wasteful() {
		x.texts.begin()
		for e := range x.All() {
			e.text = x.texts.move(e.text)
		}
		x.texts.end()
	}
}

// Len returns the number of entries.
func (x *Index) Len() int { return x.count }

// All yields the entries in no order. The caller may remove yielded entries meanwhile.
func (x *Index) All() iter.Seq[*Entry] {
	return func(yield func(*Entry) bool) {
		for slot := range x.used {
			if e := x.at(slot); e.used() && !yield(e) {
				return
			}
		}
	}
}

// Namespace returns the namespace of an entry. The string stays valid after the entry is
// removed, and keeps the text of other entries alive with it.
func (x *Index) Namespace(e *Entry) string { return x.texts.namespace(e.text) }

// Name returns the name of an entry; see [Index.Namespace].
func (x *Index) Name(e *Entry) string { return x.texts.name(e.text) }

// UID returns the UID of an entry as a new string.
func (x *Index) UID(e *Entry) string {
	if uid := x.texts.uid(e.text); uid != "" {
		return uid
	}
	return formatUUID(&e.uuid)
}

// IsUID reports whether UID(e) equals uid, without an allocation.
func (x *Index) IsUID(e *Entry, uid string) bool {
	if text := x.texts.uid(e.text); text != "" {
		return text == uid
	}
	uuid, ok := parseUUID(uid)
	return ok && uuid == e.uuid
}

// ID returns the names of an entry.
func (x *Index) ID(e *Entry) ID {
	return ID{x.Namespace(e), x.Name(e), x.UID(e)}
}

// head returns the head of a name's hash. There must be heads.
func (x *Index) head(namespace, name string) *uint32 {
	x.scratch = append(append(append(x.scratch[:0], namespace...), '/'), name...)
	hash := uint32(maphash.Bytes(x.seed, x.scratch)>>32) & x.bits
	return &x.heads[hash&uint32(len(x.heads)-1)]
}

package frame

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"hash"
	"slices"
	"sync"

	"github.com/informd/informd/pkg/fieldpath"
)

// Gates are the change filters of a resource. A 64-bit hash identifies the content that each
// filter selects; the hash includes the text of the filter. If updates without a change are
// filtered, one more hash covers the whole object except its revision. The content is
// unchanged exactly if the hash is among those of the last event of the object, whatever
// filters applied then. The hashes cover the bytes of the API server, and are the same in
// every process with the same key. Without the key an author of objects cannot make a change that keeps a hash,
// and so hide it. Gates is safe for concurrent use.
type Gates struct {
	ids []uint64
	// own is how many of them, from the first on, decide what becomes an event; told
	// says of which others want to know.
	own  int
	told []bool
	noop bool

	set *fieldpath.Set
	// members are the paths of the set: the gate that each belongs to, and its rank
	// there, 0 for all if every one counts.
	members []gateMember
	states  sync.Pool // of *gateState
}

type gateMember struct{ gate, rank int }

// gateState is what is known of one object while it is walked through.
type gateState struct {
	digest hash.Hash
	sum    [sha256.Size]byte
	ranks  []int
	// revision is where the value of metadata.resourceVersion is.
	from, to int
}

// NewGates returns the gates that decide what becomes an event, own, and those that only
// want to know, others. With noop an update that changes nothing but the revision is
// none. It returns nil if nothing is asked about.
func NewGates(own, others []fieldpath.Gate, noop bool) *Gates {
	if len(own)+len(others) == 0 && !noop {
		return nil
	}
	g := &Gates{noop: noop}
	var paths []fieldpath.Path
	add := func(one fieldpath.Gate) int {
		if i := slices.Index(g.ids, one.ID()); i >= 0 {
			return i
		}
		of, first := one.Paths()
		for rank, p := range of {
			m := gateMember{gate: len(g.ids)}
			if first {
				m.rank = rank
			}
			paths, g.members = append(paths, p), append(g.members, m)
		}
		g.ids, g.told = append(g.ids, one.ID()), append(g.told, false)
		return len(g.ids) - 1
	}
	for _, one := range own {
		add(one)
	}
	g.own = len(g.ids)
	for _, one := range others {
		g.told[add(one)] = true
	}
	if noop {
		revision, _ := fieldpath.Parse("metadata.resourceVersion") // is a path
		paths = append(paths, revision)
	}
	g.set = fieldpath.NewSet(paths...)
	return g
}

// hashes are those of an object, with the key of r. The one of the whole is the last.
func (g *Gates) hashes(object []byte, r *Redactor) []uint64 {
	s, ok := g.states.Get().(*gateState)
	if !ok {
		s = &gateState{ranks: make([]int, len(g.ids))}
	}
	defer g.states.Put(s)
	if s.digest, ok = r.gates.Get().(hash.Hash); !ok {
		s.digest = hmac.New(sha256.New, r.gateKey)
	}
	defer r.gates.Put(s.digest)
	for i := range s.ranks {
		s.ranks[i] = len(g.members)
	}
	s.from, s.to = 0, 0
	all := make([]uint64, len(g.ids), len(g.ids)+1)
	copy(all, g.ids)
	g.set.Walk(object, func(m fieldpath.Match) {
		if m.Path == len(g.members) {
			s.from = cap(object) - cap(m.Value)
			s.to = s.from + len(m.Value)
			return
		}
		of := g.members[m.Path]
		if of.rank > s.ranks[of.gate] {
			return // what counts before it is there
		}
		if of.rank < s.ranks[of.gate] {
			s.ranks[of.gate], all[of.gate] = of.rank, g.ids[of.gate]
		}
		// The order of values in one array is that of the calls.
		all[of.gate] = s.add(all[of.gate], m.Location, m.Value)
	})
	if g.noop {
		all = append(all, s.add(0, object[:s.from], object[s.to:]))
	}
	return all
}

// add returns the hash of what one hash stands for with a value behind it.
func (s *gateState) add(before uint64, location, value []byte) uint64 {
	s.digest.Reset()
	head := binary.BigEndian.AppendUint64(s.sum[:0], before)
	_, _ = s.digest.Write(binary.BigEndian.AppendUint64(head, uint64(len(location)))) // never fails
	_, _ = s.digest.Write(location)
	_, _ = s.digest.Write(value)
	return binary.BigEndian.Uint64(s.digest.Sum(s.sum[:0]))
}

// Open reports whether a change is to become an event, given the hashes of the object
// and those of its last event, none if they are not known.
func (g *Gates) Open(hashes, last []uint64) bool {
	if g.noop && slices.Contains(last, hashes[len(g.ids)]) {
		return false
	}
	return g.own == 0 || slices.ContainsFunc(hashes[:g.own], func(h uint64) bool { return !slices.Contains(last, h) })
}

// Unchanged are the gates of those who want to know to which the object is what it was
// in its last event.
func (g *Gates) Unchanged(hashes, last []uint64) (ids []uint64) {
	for i, id := range g.ids {
		if g.told[i] && slices.Contains(last, hashes[i]) {
			ids = append(ids, id)
		}
	}
	return ids
}

package emit

import (
	"bytes"
	"slices"

	"github.com/informd/informd/pkg/fieldpath"
)

// Filters are the change filters of an entry, and those of the sinks. A filter compares the object
// of an event, after keep, omit and redact, with the object in the event before, byte by byte.
// Filters never change.
type Filters struct {
	all []filter
	// entry is how many of all, from the first on, decide what becomes an event.
	entry int
	// noop: an object of which nothing but the revision has changed is no event.
	noop bool
	// set has the paths of all filters, and behind them that of the revision.
	set   *fieldpath.Set
	paths int
}

type filter struct {
	id    uint64
	sinks bool  // a sink wants to know
	paths []int // in the set
	first bool  // only the first path with a value counts
}

// NewFilters returns the filters of an entry and those of sinks. With noop, an update that changes
// nothing but the revision is no event. It returns nil if there is nothing to compare.
func NewFilters(entry, sinks []fieldpath.ChangeFilter, noop bool) *Filters {
	if len(entry)+len(sinks) == 0 && !noop {
		return nil
	}
	f := &Filters{noop: noop}
	var paths []fieldpath.Path
	add := func(one fieldpath.ChangeFilter) *filter {
		if i := slices.IndexFunc(f.all, func(f filter) bool { return f.id == one.ID() }); i >= 0 {
			return &f.all[i]
		}
		of, first := one.Paths()
		added := filter{id: one.ID(), first: first}
		for _, p := range of {
			added.paths, paths = append(added.paths, len(paths)), append(paths, p)
		}
		f.all = append(f.all, added)
		return &f.all[len(f.all)-1]
	}
	for _, one := range entry {
		add(one)
	}
	f.entry = len(f.all)
	for _, one := range sinks {
		add(one).sinks = true
	}
	revision, _ := fieldpath.Parse("metadata.resourceVersion") // is a path
	f.paths = len(paths)
	f.set = fieldpath.NewSet(append(paths, revision)...)
	return f
}

// value is one of those at a path.
type value struct{ location, bytes []byte }

func (v value) equal(other value) bool {
	return bytes.Equal(v.location, other.location) && bytes.Equal(v.bytes, other.bytes)
}

// view is what the filters see of an object.
type view struct {
	values [][]value // by path
	// around is what is before and behind the revision.
	around [2][]byte
}

func (f *Filters) view(object []byte) view {
	v := view{values: make([][]value, f.paths), around: [2][]byte{object}}
	f.set.Walk(object, func(m fieldpath.Match) {
		if m.Path < f.paths {
			v.values[m.Path] = append(v.values[m.Path], value{bytes.Clone(m.Location), m.Value})
			return
		}
		from := cap(object) - cap(m.Value)
		v.around = [2][]byte{object[:from], object[from+len(m.Value):]}
	})
	return v
}

// compare compares the object of an event with the one in the event before, nil if that is not
// known. Held: the change is to become no event. Unchanged are the filters of sinks that see no
// change, not nil.
func (f *Filters) compare(before, object []byte) (held bool, unchanged []uint64) {
	unchanged = []uint64{}
	if len(before) == 0 || before[0] != '{' {
		return false, unchanged
	}
	was, is := f.view(before), f.view(object)
	held = f.entry > 0
	for i := range f.all {
		if !f.all[i].same(was, is) {
			held = held && i >= f.entry
		} else if f.all[i].sinks {
			unchanged = append(unchanged, f.all[i].id)
		}
	}
	noop := f.noop && bytes.Equal(was.around[0], is.around[0]) && bytes.Equal(was.around[1], is.around[1])
	return held || noop, unchanged
}

// same reports whether the filter sees no change.
func (f *filter) same(was, is view) bool {
	for _, p := range f.paths {
		if !slices.EqualFunc(was.values[p], is.values[p], value.equal) {
			return false
		}
		if f.first && len(is.values[p]) > 0 {
			return true
		}
	}
	return true
}

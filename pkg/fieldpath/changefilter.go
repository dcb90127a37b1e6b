package fieldpath

import (
	"errors"
	"fmt"
	"hash/fnv"
	"slices"
)

// ChangeFilter is one item of a list `changed` of informd's config: the values at a path, or one
// of three presets. Changes of other values do not count.
//
//   - spec is metadata.generation, which the API server raises when the desired state
//     changes; for an object without it, the value at spec
//   - status is the value at status
//   - metadata is labels, annotations, finalizers, ownerReferences and
//     deletionTimestamp
type ChangeFilter struct {
	text  string
	paths []Path
	first bool
}

// ParseChangeFilter reads an item. With metadataOnly the objects have nothing but metadata. The
// error says what is wrong with the item.
func ParseChangeFilter(item string, metadataOnly bool) (ChangeFilter, error) {
	p, err := Parse(item)
	if err != nil {
		return ChangeFilter{}, err
	}
	switch text := p.String(); text {
	case "spec":
		return ChangeFilter{text: text, first: true, paths: []Path{pathTo([]string{"metadata", "generation"}), p}}, nil
	case "metadata":
		f := ChangeFilter{text: text}
		for _, key := range []string{"labels", "annotations", "finalizers", "ownerReferences", "deletionTimestamp"} {
			f.paths = append(f.paths, pathTo([]string{"metadata", key}))
		}
		return f, nil
	}
	if p, err = parseFor(item, metadataOnly); err != nil {
		return ChangeFilter{}, err
	}
	if err := p.stays(); err != nil {
		return ChangeFilter{}, err
	}
	if p.meets([][]string{{"metadata", "resourceVersion"}}, atOrAbove) != nil {
		return ChangeFilter{}, errors.New("the path matches metadata.resourceVersion, which differs in every event: name the keys")
	}
	return ChangeFilter{text: p.String(), paths: []Path{p}}, nil
}

// ParseChangeFilters parses a list of items. The joined errors name the items.
func ParseChangeFilters(items []string, metadataOnly bool) ([]ChangeFilter, error) {
	var all []ChangeFilter
	var errs []error
	for _, item := range items {
		f, err := ParseChangeFilter(item, metadataOnly)
		if err != nil {
			errs = append(errs, fmt.Errorf("changed %q: %w", item, err))
			continue
		}
		all = append(all, f)
	}
	return all, errors.Join(errs...)
}

// String returns the item in its usual form, which [ParseChangeFilter] reads.
func (f ChangeFilter) String() string { return f.text }

// ID is a hash of the item's text, the same in every process.
func (f ChangeFilter) ID() uint64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte(f.text)) // never fails
	return h.Sum64()
}

// Paths are the paths of the filter's values. If first is true, only the first path with a
// value counts.
func (f ChangeFilter) Paths() (paths []Path, first bool) { return slices.Clone(f.paths), f.first }

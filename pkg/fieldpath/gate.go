package fieldpath

import (
	"errors"
	"fmt"
	"hash/fnv"
	"slices"
)

// Gate is one item of a change filter: the values at a path, or one of three presets. Changes
// of other values do not count.
//
//   - spec is metadata.generation, which the API server raises when the desired state
//     changes; for an object without it, the value at spec
//   - status is the value at status
//   - metadata is labels, annotations, finalizers, ownerReferences and
//     deletionTimestamp
type Gate struct {
	text  string
	paths []Path
	first bool
}

// ParseGate reads an item of a list `changed` of informd's config.
// With metadataOnly the objects have nothing but metadata. The error says what is wrong
// with the item.
func ParseGate(item string, metadataOnly bool) (Gate, error) {
	p, err := Parse(item)
	if err != nil {
		return Gate{}, err
	}
	switch text := p.String(); text {
	case "spec":
		return Gate{text: text, first: true, paths: []Path{pathTo([]string{"metadata", "generation"}), p}}, nil
	case "metadata":
		g := Gate{text: text}
		for _, key := range []string{"labels", "annotations", "finalizers", "ownerReferences", "deletionTimestamp"} {
			g.paths = append(g.paths, pathTo([]string{"metadata", key}))
		}
		return g, nil
	}
	if p, err = parseFor(item, metadataOnly); err != nil {
		return Gate{}, err
	}
	if err := p.stays(); err != nil {
		return Gate{}, err
	}
	if p.meets([][]string{{"metadata", "resourceVersion"}}, atOrAbove) != nil {
		return Gate{}, errors.New("the path matches metadata.resourceVersion, which differs in every event: name the keys")
	}
	return Gate{text: p.String(), paths: []Path{p}}, nil
}

// ParseGates parses a list of items. The joined errors name the items.
func ParseGates(items []string, metadataOnly bool) ([]Gate, error) {
	var all []Gate
	var errs []error
	for _, item := range items {
		g, err := ParseGate(item, metadataOnly)
		if err != nil {
			errs = append(errs, fmt.Errorf("changed %q: %w", item, err))
			continue
		}
		all = append(all, g)
	}
	return all, errors.Join(errs...)
}

// String returns the item in its usual form, which [ParseGate] reads.
func (g Gate) String() string { return g.text }

// ID is a hash of the gate's text, the same in every process.
func (g Gate) ID() uint64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte(g.text)) // never fails
	return h.Sum64()
}

// Paths are the paths of the gate's values. If first is true, only the first path with a
// value counts.
func (g Gate) Paths() (paths []Path, first bool) { return slices.Clone(g.paths), g.first }

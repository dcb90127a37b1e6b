package fieldpath

import (
	"errors"
	"fmt"
	"hash/fnv"
	"slices"
)

// Gate names what of an object a change gate asks about: what a path leads to, or one of
// three presets, whatever else of the object changes.
//
//   - spec is metadata.generation, which the API server raises when what is wanted
//     changes; of an object without one it is the value at spec
//   - status is the value at status
//   - metadata is labels, annotations, finalizers, ownerReferences and
//     deletionTimestamp
type Gate struct {
	text  string
	paths []Path
	first bool
}

// ParseGate reads an item of onlyWhenChanged, as the keys of informd's config are called.
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
	if place := p.meets(dropped(), atOrBelow); place != nil {
		return Gate{}, fmt.Errorf("%s is cut out of every object: remove it", place)
	}
	if p.meets([][]string{{"metadata", "resourceVersion"}}, atOrAbove) != nil {
		return Gate{}, errors.New("it leads to metadata.resourceVersion, which is another one in every event: name the keys")
	}
	return Gate{text: p.String(), paths: []Path{p}}, nil
}

// ParseGates reads a list of them. The errors, joined, name the item.
func ParseGates(items []string, metadataOnly bool) ([]Gate, error) {
	var all []Gate
	var errs []error
	for _, item := range items {
		g, err := ParseGate(item, metadataOnly)
		if err != nil {
			errs = append(errs, fmt.Errorf("onlyWhenChanged %q: %w", item, err))
			continue
		}
		all = append(all, g)
	}
	return all, errors.Join(errs...)
}

// String returns the item in its usual form, which [ParseGate] reads.
func (g Gate) String() string { return g.text }

// ID tells gates apart by their text, and is the same in every process.
func (g Gate) ID() uint64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte(g.text)) // never fails
	return h.Sum64()
}

// Paths are those that lead to what the gate asks about. With first, that is the first
// of them alone that leads anywhere.
func (g Gate) Paths() (paths []Path, first bool) { return slices.Clone(g.paths), g.first }

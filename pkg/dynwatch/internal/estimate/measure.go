// Package estimate finds out how many objects a resource has and how large they are, with few
// requests, and how far back its history goes. Its caller is the plan.
package estimate

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/informd/informd/pkg/dynwatch/internal/listwatch"
	"github.com/informd/informd/pkg/dynwatch/internal/selection"
)

// Bounds are those of the counting.
type Bounds struct {
	// Listed is how many objects are looked at one by one, Asked how many namespaces
	// are asked how many they have.
	Listed, Asked int
}

const (
	// sampleSize is how many objects are read to know their size.
	sampleSize = 20
	// samplePlaces is in how many namespaces they are read if only some are covered.
	samplePlaces = 4
)

// Covered are the namespaces that count. Listed: the filter's names are
// known; without a filter all count, and there are no names.
type Covered struct {
	Filter *selection.Filter
	Names  []string
	Listed bool
}

// Size is what is known of the objects that count.
type Size struct {
	// ResourceVersion is the revision of the list.
	ResourceVersion uint64
	// Objects is their number. More: there are more. Estimated: not all were counted.
	Objects         int
	More, Estimated bool
	// Bytes is the length of all, by the mean size of Weighed of them.
	Bytes   uint64
	Weighed int
}

// weight is that of a few objects, and what the API server says of how many more
// there are.
type weight struct {
	objects, bytes, more int
	// untold: there are more, and it does not say how many.
	untold bool
}

func (w *weight) add(raw []byte) {
	w.objects++
	w.bytes += len(raw)
}

// Measure counts the objects, and weighs a few of them. With an error the size is incomplete.
func Measure(ctx context.Context, src *listwatch.Source, c Covered, b Bounds) (t Size, err error) {
	seen := 0
	var w weight
	meta, err := src.ReadFew(ctx, src.Resource.Namespace, sampleSize, func(raw []byte) error {
		if seen == max(b.Listed, sampleSize) { // the server ignores the limit
			return listwatch.ErrEnough
		}
		var o struct {
			Metadata struct{ Namespace string }
		}
		_ = json.Unmarshal(raw, &o) // of one that is not readable nothing is known
		seen++
		if c.Filter.Covers(o.Metadata.Namespace) {
			w.add(raw)
		}
		return nil
	})
	enough := errors.Is(err, listwatch.ErrEnough)
	if err != nil && !enough {
		return t, fmt.Errorf("list: %w", err)
	}
	if t.ResourceVersion = meta.ResourceVersion; enough && t.ResourceVersion == 0 {
		if t.ResourceVersion, err = src.Revision(ctx); err != nil {
			return t, err
		}
	}
	all := seen + int(max(meta.RemainingItems, 0))
	switch {
	case enough:
		t.Objects, t.More = w.objects, true
	case meta.Continue == "":
		t.Objects = w.objects
	case all == seen: // with a selector the API server does not say how many follow
		w, err = count(ctx, src, c, w, b, &t)
	case c.Filter == nil:
		t.Objects = all
	case c.Listed && (len(c.Names) <= samplePlaces || all > b.Listed):
		w, err = countIn(ctx, src, c.Names, b, &t)
	default:
		w, err = count(ctx, src, c, w, b, &t)
	}
	if w.objects > 0 {
		t.Bytes, t.Weighed = uint64(float64(w.bytes)/float64(w.objects)*float64(t.Objects)), w.objects
	}
	return t, err
}

// count counts objects one by one, up to the bound. It returns the weight of a few that
// are covered: w, or, if only some namespaces are, that of objects in a few of them.
func count(ctx context.Context, src *listwatch.Source, c Covered, w weight, b Bounds, t *Size) (weight, error) {
	looked, in := 0, make(map[string]struct{})
	_, err := src.ListMetadata(ctx, 0, func(m listwatch.Listed) error {
		if looked == b.Listed {
			return listwatch.ErrEnough
		}
		if looked++; c.Filter.Covers(m.Namespace) {
			t.Objects++
			in[m.Namespace] = struct{}{}
		}
		return nil
	})
	switch {
	case errors.Is(err, listwatch.ErrEnough):
		t.More = true
	case err != nil:
		return w, err
	}
	if c.Filter == nil {
		return w, nil
	}
	return weigh(ctx, src, spread(slices.Sorted(maps.Keys(in)), samplePlaces))
}

// countIn asks namespaces how many objects they have, and takes the others to have as
// many if there are too many to ask all.
func countIn(ctx context.Context, src *listwatch.Source, names []string, b Bounds, t *Size) (weight, error) {
	asked := spread(names, b.Asked)
	w, err := weigh(ctx, src, asked)
	t.Objects, t.More = w.objects+w.more, w.untold
	if len(asked) < len(names) {
		t.Objects, t.Estimated = int(float64(t.Objects)/float64(len(asked))*float64(len(names))), true
	}
	return w, err
}

// weigh reads a few objects of each namespace.
func weigh(ctx context.Context, src *listwatch.Source, namespaces []string) (w weight, err error) {
	for _, namespace := range namespaces {
		n := max(1, sampleSize/len(namespaces))
		before := w.objects
		meta, err := src.ReadFew(ctx, namespace, n, func(raw []byte) error {
			if w.objects-before == n { // the server ignores the limit
				return listwatch.ErrEnough
			}
			w.add(raw)
			return nil
		})
		enough := errors.Is(err, listwatch.ErrEnough)
		if err != nil && !enough {
			return w, fmt.Errorf("list: %w", err)
		}
		w.more += int(max(meta.RemainingItems, 0))
		w.untold = w.untold || enough || meta.Continue != "" && meta.RemainingItems <= 0
	}
	return w, nil
}

// spread returns at most n of the names, evenly.
func spread(names []string, n int) []string {
	if len(names) <= n {
		return names
	}
	chosen := make([]string, n)
	for i := range chosen {
		chosen[i] = names[i*len(names)/n]
	}
	return chosen
}

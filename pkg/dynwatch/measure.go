package dynwatch

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

// bounds are those of the counting for a plan.
type bounds struct {
	// listed is how many objects are looked at one by one, asked how many namespaces
	// are asked how many they have.
	listed, asked int
}

func defaultBounds() bounds { return bounds{listed: 5000, asked: 50} }

const (
	// sampleSize is how many objects are read to know their size.
	sampleSize = 20
	// samplePlaces is in how many namespaces they are read if only some are covered.
	samplePlaces = 4
)

// covered are the namespaces that a target covers. Listed: the filter's names are
// known; without a filter it covers all, and has none.
type covered struct {
	filter *selection.Filter
	names  []string
	listed bool
}

// coverageOf finds the namespaces that a target would cover now. Its error is that
// they cannot be known and that it takes them to watch.
func (p *planner) coverageOf(s spec) (covered, error) {
	c := covered{filter: selection.NewFilter(s.namespaces)}
	if c.filter == nil {
		return c, nil
	}
	if p.unlisted != nil {
		if s.namespaces.Selector != "" {
			return c, fmt.Errorf("namespaceSelector: %w", p.unlisted)
		}
		return c, nil // the names say it, whichever there are
	}
	var err error
	if c.names, err = p.namespaces.Matching(s.namespaces); err != nil {
		return c, err
	}
	if c.listed = true; s.namespaces.Selector != "" {
		c.filter.CoverNow(slices.Values(c.names))
	}
	return c, nil
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

// measure counts the objects that the target covers, and weighs a few of them. It
// returns the identity of one of the resource, covered or not, empty if there is none.
func (p *planner) measure(ctx context.Context, src *listwatch.Source, c covered, t *TargetPlan) (one identity, err error) {
	seen := 0
	var w weight
	meta, err := src.ReadFew(ctx, src.Resource.Namespace, sampleSize, func(raw []byte) error {
		if seen == max(p.bounds.listed, sampleSize) { // the server ignores the limit
			return listwatch.ErrEnough
		}
		var o identity
		_ = json.Unmarshal(raw, &o) // of one that is not readable nothing is known
		if seen == 0 {
			one = o
		}
		seen++
		if c.filter.Covers(o.Metadata.Namespace) {
			w.add(raw)
		}
		return nil
	})
	enough := errors.Is(err, listwatch.ErrEnough)
	if err != nil && !enough {
		return one, fmt.Errorf("list: %w", err)
	}
	if t.ResourceVersion = meta.ResourceVersion; enough && t.ResourceVersion == 0 {
		if t.ResourceVersion, err = src.Revision(ctx); err != nil {
			return one, err
		}
	}
	all := seen + int(max(meta.RemainingItems, 0))
	switch {
	case enough:
		t.Objects, t.More = w.objects, true
	case meta.Continue == "":
		t.Objects = w.objects
	case all == seen: // with a selector the API server does not say how many follow
		w, err = p.count(ctx, src, c, w, t)
	case c.filter == nil:
		t.Objects = all
	case c.listed && (len(c.names) <= samplePlaces || all > p.bounds.listed):
		w, err = p.countIn(ctx, src, c.names, t)
	default:
		w, err = p.count(ctx, src, c, w, t)
	}
	if w.objects > 0 {
		t.Bytes, t.Weighed = uint64(float64(w.bytes)/float64(w.objects)*float64(t.Objects)), w.objects
	}
	return one, err
}

// count counts objects one by one, up to the bound. It returns the weight of a few that
// are covered: w, or, if only some namespaces are, that of objects in a few of them.
func (p *planner) count(ctx context.Context, src *listwatch.Source, c covered, w weight, t *TargetPlan) (weight, error) {
	looked, in := 0, make(map[string]struct{})
	_, err := src.ListMetadata(ctx, 0, func(m listwatch.Listed) error {
		if looked == p.bounds.listed {
			return listwatch.ErrEnough
		}
		if looked++; c.filter.Covers(m.Namespace) {
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
	if c.filter == nil {
		return w, nil
	}
	return weigh(ctx, src, spread(slices.Sorted(maps.Keys(in)), samplePlaces))
}

// countIn asks namespaces how many objects they have, and takes the others to have as
// many if there are too many to ask all.
func (p *planner) countIn(ctx context.Context, src *listwatch.Source, names []string, t *TargetPlan) (weight, error) {
	asked := spread(names, p.bounds.asked)
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

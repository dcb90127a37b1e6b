package dynwatch

import (
	"context"
	"fmt"
)

// Namespaces and the objects in them can be in two stores: an aggregated API server has its
// own etcd, and --etcd-servers-overrides moves a resource to another one. Revisions of two
// stores do not compare. A target with a namespaceSelector finds that out at its start.
// Between two stores it cannot tell which frames came before a change of a Namespace: a
// namespace that matches begins with a list, and a gap (reason selection) names the frames
// that were filtered out before.

// storeProbes is how often the stores must look like two.
const storeProbes = 2

// findStores finds out whether the Namespaces are in another store than the objects.
// Consistent lists read the head of a store. In one store a head that is read between two
// others is between them.
func (t *target) findStores(ctx context.Context) error {
	t.coverage.apart = false
	for range storeProbes {
		before, err := t.coverage.namespaces.revision(ctx)
		if err != nil {
			return err
		}
		objects, err := t.source.Revision(ctx)
		if err != nil {
			return err
		}
		after, err := t.coverage.namespaces.revision(ctx)
		if err != nil {
			return err
		}
		if before <= objects && objects <= after {
			return nil
		}
	}
	t.coverage.apart = true
	t.logger.Info("namespaces have a separate store; matched namespaces are listed",
		"next", "none: a gap declares the changes that were filtered out before")
	return nil
}

// revision returns the newest revision of the Namespaces' store.
func (n *namespaces) revision(ctx context.Context) (uint64, error) {
	rv, err := n.watch.Source.Revision(ctx)
	if err != nil {
		return 0, fmt.Errorf("namespaces: %w", err)
	}
	return rv, nil
}

// filteredOut is what is known of a namespace that matches and is in another store: the
// frames that were filtered out since it was covered last, and a revision from before the
// first of them.
func (c *coverage) filteredOut(namespace string) (frames []leftFrame, after uint64, known bool) {
	if c.resumed {
		return nil, 0, false // the process before this one can have filtered out more
	}
	after = max(c.leftOut.since, c.leftOut.told[namespace])
	frames, known = c.leftOut.of(namespace, after)
	if known && len(frames) > 0 {
		after = max(frames[0].rv, 1) - 1
	}
	return frames, after, known
}

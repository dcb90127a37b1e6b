package selection

import "context"

// Namespaces and the objects in them can be in two stores: an aggregated API server has its
// own etcd, and --etcd-servers-overrides moves a resource to another one. Revisions of two
// stores do not compare. A target with a namespaceSelector finds that out at its start.
// Between two stores it cannot tell which frames came before a change of a Namespace: a
// namespace that matches begins with a list, and a gap (reason selection) names the frames
// that were filtered out before.

// storeProbes is how often the stores must look like two.
const storeProbes = 2

// FindStores finds out whether the Namespaces are in another store than the objects, whose
// newest revision it asks for. Consistent lists read the head of a store. In one store a head
// that is read between two others is between them.
func (c *Coverage) FindStores(ctx context.Context, revision func(context.Context) (uint64, error)) error {
	c.Apart = false
	for range storeProbes {
		before, err := c.Namespaces.revision(ctx)
		if err != nil {
			return err
		}
		objects, err := revision(ctx)
		if err != nil {
			return err
		}
		after, err := c.Namespaces.revision(ctx)
		if err != nil {
			return err
		}
		if before <= objects && objects <= after {
			return nil
		}
	}
	c.Apart = true
	return nil
}

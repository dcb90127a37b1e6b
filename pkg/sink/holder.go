package sink

import "context"

// Holder is a [Config] of a sink whose destination can be read, so that informd can compare
// its content with the cluster.
type Holder interface {
	Config
	// Holds calls take with the last event of each object in the destination, in no order. If
	// an object changes meanwhile, take may get two of its events. Holds opens separate
	// connections, and returns the first error of take.
	Holds(ctx context.Context, env Env, take func(Held) error) error
}

// Held is the last event of an object in a destination.
type Held struct {
	Group, Resource, Namespace, Name, UID string
	Epoch, ResourceVersion                uint64
	// Ended: the last event is terminal, deleted or left.
	Ended bool
}

package sink

import "context"

// Holder is a [Config] of a sink whose destination can be read: what it holds can be
// compared with what exists.
type Holder interface {
	Config
	// Holds calls take with the last event of each object that the destination holds, in
	// no order; of an object that changes meanwhile it may be two. It makes connections of
	// its own, and ends with the first error of take.
	Holds(ctx context.Context, env Env, take func(Held) error) error
}

// Held is what a destination holds of an object.
type Held struct {
	Group, Resource, Namespace, Name, UID string
	Epoch, ResourceVersion                uint64
	// Ended: the last event is the object's deletion, or says that it has left.
	Ended bool
}

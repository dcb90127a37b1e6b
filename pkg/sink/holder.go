package sink

import (
	"context"

	"github.com/informd/informd/pkg/event"
)

// Holder is a [Config] of a sink whose destination can be read, so that informd can compare
// its content with the cluster.
type Holder interface {
	Config
	// Holds calls take with the last event of each object in the destination, in no order. If
	// an object changes meanwhile, take may get two of its events. Holds opens separate
	// connections, and returns the first error of take. The events may lack their data.
	Holds(ctx context.Context, env Env, take func(event.Event) error) error
}

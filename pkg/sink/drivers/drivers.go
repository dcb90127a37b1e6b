// Package drivers is the list of sink types that informd is built with. The
// config decodes a sink's options with its driver, and the daemon opens it; a
// program that embeds informd can use a list of its own instead.
package drivers

import (
	"github.com/informd/informd/pkg/sink"
	"github.com/informd/informd/pkg/sink/file"
	"github.com/informd/informd/pkg/sink/kafka"
	"github.com/informd/informd/pkg/sink/nats"
	"github.com/informd/informd/pkg/sink/stdout"
	"github.com/informd/informd/pkg/sink/webhook"
)

// All returns every sink type, by name. A new one is one line here.
func All() []sink.Driver {
	return []sink.Driver{
		file.Driver(),
		kafka.Driver(),
		nats.Driver(),
		stdout.Driver(),
		webhook.Driver(),
	}
}

// Package drivers is the list of informd's sink types. The config decodes the options of a
// sink with its driver, and the daemon opens the sink. A sink type outside of this repository
// needs a fork: no other list can be given to the program.
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

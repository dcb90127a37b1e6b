// Package drivers is the list of informd's sink types. The config decodes the options of a
// sink with its driver, and the daemon opens the sink. Package informd makes a program with
// other sink types.
package drivers

import (
	"github.com/informd/informd/pkg/sink"
	"github.com/informd/informd/pkg/sink/exec"
	"github.com/informd/informd/pkg/sink/file"
	"github.com/informd/informd/pkg/sink/kafka"
	"github.com/informd/informd/pkg/sink/nats"
	"github.com/informd/informd/pkg/sink/otlp"
	"github.com/informd/informd/pkg/sink/postgres"
	"github.com/informd/informd/pkg/sink/stdout"
	"github.com/informd/informd/pkg/sink/webhook"
)

// All returns every sink type, by name. A new one is one line here.
func All() []sink.Driver {
	return []sink.Driver{
		exec.Driver(),
		file.Driver(),
		kafka.Driver(),
		nats.Driver(),
		otlp.Driver(),
		postgres.Driver(),
		stdout.Driver(),
		webhook.Driver(),
	}
}

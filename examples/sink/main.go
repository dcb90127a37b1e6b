// The program is informd with one more sink type, redis: see redis.go.
package main

import (
	"context"
	"os"

	"github.com/informd/informd/pkg/event"
	"github.com/informd/informd/pkg/informd"
	"github.com/informd/informd/pkg/sink"
	"github.com/informd/informd/pkg/sink/drivers"
)

func main() {
	redis := sink.Driver{
		Type:   "redis",
		New:    func() sink.Config { return &options{Address: "127.0.0.1:6379"} },
		Lanes:  1,    // a stream is one order
		Remote: true, // other clusters may write to it
	}
	os.Exit(informd.Main(informd.Options{Name: "informd-redis", Drivers: append(drivers.All(), redis)}))
}

// options are the keys of a redis sink in the config.
type options struct {
	Address string `yaml:"address" help:"The address of the Redis server, host:port."`
	Stream  string `yaml:"stream" help:"The key of the stream that gets the events."`
}

// Validate implements [sink.Config].
func (o *options) Validate() []sink.Problem {
	if o.Stream == "" {
		return []sink.Problem{{Key: "stream", Message: "is required: the key of a stream, as in k8s"}}
	}
	return nil
}

// Open implements [sink.Config]. It makes no connection: Write does.
func (o *options) Open(context.Context, sink.Env) (sink.Sink, error) { return &redis{options: *o}, nil }

// Render implements [sink.Renderer], for `informd try`.
func (o *options) Render(_ sink.Env, e *event.Event) (sink.Rendered, error) { //nolint:unparam // of the interface
	return sink.Rendered{To: o.Address + " " + o.Stream, Body: o.command(nil, e)}, nil
}

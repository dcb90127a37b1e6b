package informd_test

import (
	"context"
	"fmt"
	"io"
	"os"

	"github.com/informd/informd/pkg/event"
	"github.com/informd/informd/pkg/informd"
	"github.com/informd/informd/pkg/sink"
	"github.com/informd/informd/pkg/sink/drivers"
)

// greeting is a sink type: its keys in the config...
type greeting struct {
	Word string `yaml:"word" help:"What the sink says first."`
}

// Validate reports what is wrong with the keys.
func (g *greeting) Validate() []sink.Problem {
	if g.Word == "" {
		return []sink.Problem{{Key: "word", Message: "is required: a word of your choice"}}
	}
	return nil
}

// Open opens the sink.
func (g *greeting) Open(_ context.Context, env sink.Env) (sink.Sink, error) {
	return &greeter{word: g.Word, out: env.Stdout}, nil
}

// ...and what they open.
type greeter struct {
	word string
	out  io.Writer
}

// Write delivers the events and returns how many of them the destination holds.
func (g *greeter) Write(_ context.Context, batch []event.Event) (int, error) {
	for i := range batch {
		if _, err := fmt.Fprintf(g.out, "%s %s: %s\n", g.word, batch[i].Op, batch[i].Subject()); err != nil {
			return i, err
		}
	}
	return len(batch), nil
}

// Close ends the sink.
func (*greeter) Close(context.Context) error { return nil }

// driver is the sink type `greeting`.
func driver() sink.Driver {
	return sink.Driver{Type: "greeting", New: func() sink.Config { return &greeting{} }, Lanes: 1}
}

// This is the main function of a program with one more sink type.
func Example() {
	main := func() {
		os.Exit(informd.Main(informd.Options{Name: "greeter", Version: "1.0.0", Drivers: append(drivers.All(), driver())}))
	}
	_ = main
}

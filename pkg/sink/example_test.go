package sink_test

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"

	"github.com/informd/informd/pkg/event"
	"github.com/informd/informd/pkg/sink"
	"github.com/informd/informd/pkg/sink/sinktest"
)

// shout is a sink type: its options...
type shout struct {
	Greeting string `yaml:"greeting"`
}

func (s *shout) Validate() []sink.Problem {
	if s.Greeting == "" {
		return []sink.Problem{{Key: "greeting", Message: "is required: a word of your choice"}}
	}
	return nil
}

func (s *shout) Open(_ context.Context, env sink.Env) (sink.Sink, error) {
	return &shouter{greeting: s.Greeting, out: env.Stdout}, nil
}

// ...and what they open.
type shouter struct {
	greeting string
	out      io.Writer
}

func (s *shouter) Write(ctx context.Context, batch []event.Event) (int, error) {
	for i := range batch {
		if err := ctx.Err(); err != nil {
			return i, err
		}
		if _, err := fmt.Fprintf(s.out, "%s, %s was %s!\n", s.greeting, batch[i].Subject(), batch[i].Op); err != nil {
			return i, err
		}
	}
	return len(batch), nil
}

func (s *shouter) Close(context.Context) error { return nil }

// A sink type of your own: a Config, a Sink, and a Driver that goes into the
// program's list (package drivers has informd's).
func Example() {
	driver := sink.Driver{
		Type:  "shout",
		New:   func() sink.Config { return &shout{Greeting: "Hey"} },
		Lanes: 1,
	}

	// What informd does with it, after decoding the config over New's result:
	options := driver.New()
	if problems := options.Validate(); problems != nil {
		fmt.Println(problems)
		return
	}
	ctx := context.Background()
	env := sink.Env{Name: "loud", Cluster: "test", Logger: slog.New(slog.DiscardHandler), Stdout: os.Stdout}
	s, err := options.Open(ctx, env)
	if err != nil {
		fmt.Println(err)
		return
	}
	n, err := s.Write(ctx, sinktest.Events(3))
	fmt.Println(n, err, s.Close(ctx))
	// Output:
	// Hey, apps/deployments/shop/object-0 was snapshot!
	// Hey, core/pods/shop/object-5 was snapshot!
	// Hey, shop.example.com/orders/shop/object-3 was snapshot!
	// 3 <nil> <nil>
}

// Command materialised-view keeps a table of the objects of a cluster from the stream of
// an informd sink, and prints how many there are of each resource.
package main

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"os"
	"os/signal"
	"slices"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/informd/informd/examples/materialised-view/view"
)

func main() {
	url := flag.String("url", nats.DefaultURL, "address of the NATS server")
	stream := flag.String("stream", "INFORMD_EVENTS", "stream of the sink")
	every := flag.Duration("every", 10*time.Second, "how often to print")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	logger := slog.New(slog.NewTextHandler(os.Stderr, nil))
	if err := run(ctx, *url, *stream, *every, os.Stdout, logger); err != nil && ctx.Err() == nil {
		logger.Error("view ended", "err", err)
		stop()
		os.Exit(1)
	}
}

func run(ctx context.Context, url, stream string, every time.Duration, out io.Writer, logger *slog.Logger) error {
	conn, err := nats.Connect(url, nats.MaxReconnects(-1), nats.RetryOnFailedConnect(true))
	if err != nil {
		return fmt.Errorf("connect to %s: %w", url, err)
	}
	defer conn.Close()
	v, err := view.New(conn, view.Options{Stream: stream, Logger: logger})
	if err != nil {
		return err
	}
	ended := make(chan error, 1)
	go func() { ended <- v.Run(ctx) }()
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	for {
		select {
		case err := <-ended:
			return err
		case <-ticker.C:
			write(out, v.Objects())
		}
	}
}

// write prints how many objects there are of each resource.
func write(out io.Writer, objects map[view.Key]view.Object) {
	counts := make(map[string]int)
	for key := range objects {
		counts[key.Cluster+" "+cmp.Or(key.Group, "core")+"/"+key.Resource]++
	}
	for _, name := range slices.Sorted(maps.Keys(counts)) {
		_, _ = fmt.Fprintf(out, "%s %d\n", name, counts[name])
	}
}

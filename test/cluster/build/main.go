// Command build makes sure that the server programs of the tests are in the
// cache (see package binary) and prints their paths, one per line. Run it before
// the tests, with
//
//	go run ./cluster/build [controlplane] [nats-server]
//
// to keep the first build out of the time limit of go test. Without arguments it
// builds both.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/informd/informd/test/cluster/binary"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := build(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "build:", err)
		os.Exit(1)
	}
}

func build(ctx context.Context, names []string) error {
	if len(names) == 0 {
		names = []string{"controlplane", "nats-server"}
	}
	for _, name := range names {
		var path string
		var err error
		switch name {
		case "controlplane":
			path, err = binary.ControlPlane(ctx)
		case "nats-server":
			path, err = binary.NATSServer(ctx)
		default:
			err = fmt.Errorf("unknown program %q: want controlplane or nats-server", name)
		}
		if err != nil {
			return err
		}
		fmt.Println(path)
	}
	return nil
}

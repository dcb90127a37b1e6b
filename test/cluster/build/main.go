// Command build makes sure that the server programs of the tests are in the
// cache (see package binary) and prints their paths, one per line. Run it before
// the tests, with
//
//	go run ./cluster/build [PROGRAM ...]
//
// to keep the first build out of the time limit of go test. Without arguments it
// builds those that every run of the tests needs, in the order of the list in programs.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"slices"
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

// program is one that package binary can build.
type program struct {
	name  string
	get   func(context.Context) (string, error)
	named bool // only built if it is an argument
}

func programs() []program {
	return []program{
		{name: "controlplane", get: binary.ControlPlane},
		{name: "nats-server", get: binary.NATSServer},
		{name: "controllers", get: binary.Controllers},
		{name: "kwok", get: binary.KWOK},
		{name: "controlplane132", get: binary.ControlPlane132},
		{name: "kafka", get: binary.Kafka, named: true},
		{name: "postgres", get: binary.Postgres, named: true},
		{name: "collector", get: binary.Collector, named: true},
	}
}

func build(ctx context.Context, names []string) error {
	wanted := slices.DeleteFunc(programs(), func(p program) bool { return p.named })
	if len(names) > 0 {
		wanted = nil
		for _, name := range names {
			i := slices.IndexFunc(programs(), func(p program) bool { return p.name == name })
			if i < 0 {
				return fmt.Errorf("unknown program %q", name)
			}
			wanted = append(wanted, programs()[i])
		}
	}
	for _, p := range wanted {
		path, err := p.get(ctx)
		if err != nil {
			return err
		}
		fmt.Println(path)
	}
	return nil
}

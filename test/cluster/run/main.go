// Command run starts a test cluster for people, on free loopback ports:
//
//	go run ./cluster/run [--kubeconfig FILE] [--dir DIR] [--apiservers N]
//
// It runs until SIGINT, SIGTERM or the end of one of the cluster's processes. Once
// the API serves, it prints one line to standard output: "ready" and the path of
// the kubeconfig.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/informd/informd/test/cluster"
)

func main() {
	kubeconfig := flag.String("kubeconfig", "", "`file` to write the administrator's kubeconfig to, removed at the end (default: in the data directory)")
	dir := flag.String("dir", "", "data `directory`, kept at the end and used again (default: a temporary one)")
	servers := flag.Int("apiservers", 1, "`number` of API servers on the one etcd")
	flag.Parse()
	options := cluster.Options{Dir: *dir, Kubeconfig: *kubeconfig, APIServers: *servers}
	if err := run(options, flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, "run:", err)
		os.Exit(1)
	}
}

func run(options cluster.Options, rest []string) error {
	if len(rest) > 0 {
		return fmt.Errorf("unexpected argument %q", rest[0])
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	c, err := cluster.New(ctx, options)
	if errors.Is(ctx.Err(), context.Canceled) && err != nil {
		return nil // asked to end before it was up; New has cleaned up
	}
	if err != nil {
		return err
	}
	fmt.Println("ready", c.Kubeconfig())
	err = c.Wait(ctx)
	stop() // a second signal ends the process at once
	return errors.Join(err, c.Close())
}

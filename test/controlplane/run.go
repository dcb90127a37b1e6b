//go:build !race

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

// runCluster runs etcd and kube-apiserver as children of this process until
// SIGINT, SIGTERM or the end of one of them. Once the API serves, it prints one
// line to standard output: "ready" and the path of the kubeconfig.
func runCluster(args []string) error {
	flags := flag.NewFlagSet("controlplane run", flag.ExitOnError)
	kubeconfig := flags.String("kubeconfig", "", "`file` to write the administrator's kubeconfig to, removed at the end (default: in the data directory)")
	dir := flags.String("dir", "", "data `directory`, kept at the end and used again (default: a temporary one)")
	servers := flags.Int("apiservers", 1, "`number` of API servers on the one etcd")
	_ = flags.Parse(args) // exits on error
	if flags.NArg() > 0 {
		return fmt.Errorf("unexpected argument %q", flags.Arg(0))
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()

	c, err := cluster.New(ctx, cluster.Options{
		Binary:     self,
		Dir:        *dir,
		Kubeconfig: *kubeconfig,
		APIServers: *servers,
	})
	if errors.Is(ctx.Err(), context.Canceled) && err != nil {
		return nil // asked to end before it was up; New has cleaned up
	}
	if err != nil {
		return err
	}
	fmt.Println("ready", c.Kubeconfig())
	err = c.Wait(ctx)
	stop() // from here on, a second signal ends the process at once
	return errors.Join(err, c.Close())
}

//go:build !race

// The build constraint keeps go test -race ./... from compiling kube-apiserver
// with the race detector, for a package without tests.

// Command controlplane132 is a real etcd 3.5 and a real kube-apiserver 1.32 in one
// binary: the oldest Kubernetes that informd supports. It has the subcommands etcd
// and apiserver of ../controlplane, with the same flags.
package main

import (
	"fmt"
	"os"
	_ "time/tzdata" // kube-apiserver validates the time zones of CronJobs

	"k8s.io/component-base/cli"
	_ "k8s.io/component-base/metrics/prometheus/clientgo" // registers metrics, as kube-apiserver's main does
	_ "k8s.io/component-base/metrics/prometheus/version"  // same
	"k8s.io/kubernetes/cmd/kube-apiserver/app"
)

const usage = `usage: controlplane132 etcd --data-dir DIR --client-url URL --peer-url URL
       controlplane132 apiserver [kube-apiserver's flags]
`

func main() {
	if len(os.Args) < 2 {
		fmt.Fprint(os.Stderr, usage)
		os.Exit(2)
	}
	args := os.Args[2:]
	switch os.Args[1] {
	case "etcd":
		if err := runEtcd(args); err != nil {
			fmt.Fprintln(os.Stderr, "controlplane132:", err)
			os.Exit(1)
		}
	case "apiserver":
		os.Exit(runAPIServer(args))
	default:
		fmt.Fprintf(os.Stderr, "controlplane132: unknown subcommand %q\n%s", os.Args[1], usage)
		os.Exit(2)
	}
}

// runAPIServer runs kube-apiserver until SIGINT or SIGTERM, which it handles
// itself, and returns its exit code.
func runAPIServer(args []string) int {
	command := app.NewAPIServerCommand()
	command.SetArgs(args)
	return cli.Run(command)
}

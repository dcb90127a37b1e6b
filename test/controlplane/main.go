//go:build !race

// The build constraint keeps go test -race ./... from compiling all of
// kube-apiserver a second time, with the race detector, for a package without tests.

// Command controlplane is a Kubernetes control plane in one binary, for tests and
// the demo: a real etcd with its etcdutl, and a real kube-apiserver. It has three
// subcommands:
//
//	etcd       runs etcd in the foreground
//	etcdutl    runs etcdutl's snapshot command
//	apiserver  runs kube-apiserver in the foreground, with all its own flags
//
// Package cluster starts them. The controllers and the scheduler are in the binary
// of ../controllers.
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

const usage = `usage: controlplane etcd --data-dir DIR --client-url URL --peer-url URL
       controlplane etcdutl snapshot restore FILE [etcdutl's flags]
       controlplane apiserver [kube-apiserver's flags]
`

func main() {
	if len(os.Args) < 2 {
		fmt.Fprint(os.Stderr, usage)
		os.Exit(2)
	}
	args := os.Args[2:]
	var err error
	switch os.Args[1] {
	case "etcd":
		err = runEtcd(args)
	case "etcdutl":
		err = runEtcdutl(args)
	case "apiserver":
		os.Exit(runAPIServer(args))
	case "help", "-h", "--help":
		fmt.Print(usage)
	default:
		fmt.Fprintf(os.Stderr, "controlplane: unknown subcommand %q\n%s", os.Args[1], usage)
		os.Exit(2)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "controlplane:", err)
		os.Exit(1)
	}
}

// runAPIServer runs kube-apiserver until SIGINT or SIGTERM, which it handles
// itself, and returns its exit code.
func runAPIServer(args []string) int {
	command := app.NewAPIServerCommand()
	command.SetArgs(args)
	return cli.Run(command)
}

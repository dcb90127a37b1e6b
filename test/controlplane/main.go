//go:build !race

// The build constraint keeps go test -race ./... from compiling all of
// kube-apiserver a second time, with the race detector, for a package without tests.

// Command controlplane is a Kubernetes control plane in one binary, for tests and
// the demo: a real etcd and a real kube-apiserver. It has three subcommands:
//
//	run        runs both on free loopback ports, for people
//	etcd       runs etcd in the foreground
//	apiserver  runs kube-apiserver in the foreground, with all its own flags
//
// run starts the other two as child processes, by way of package cluster, which
// tests use directly. There is no controller manager, scheduler or kubelet: Pods
// stay pending, owned objects are not garbage collected, and a deleted Namespace
// stays terminating until something removes its finalizer.
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

const usage = `usage: controlplane run [--kubeconfig FILE] [--dir DIR] [--apiservers N]
       controlplane etcd --data-dir DIR --client-url URL --peer-url URL
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
	case "run":
		err = runCluster(args)
	case "etcd":
		err = runEtcd(args)
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

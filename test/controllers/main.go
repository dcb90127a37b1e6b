//go:build !race

// The build constraint keeps go test -race ./... from compiling the controllers a
// second time, with the race detector, for a package without tests.

// Command controllers is kube-controller-manager and kube-scheduler in one binary,
// for tests that need a cluster that changes by itself. It has two subcommands,
// which take the flags of the programs they are named after:
//
//	controller-manager  runs kube-controller-manager in the foreground
//	scheduler           runs kube-scheduler in the foreground
//
// Package cluster starts them.
package main

import (
	"fmt"
	"os"
	_ "time/tzdata" // kube-controller-manager computes the times of CronJobs

	"github.com/spf13/cobra"
	"k8s.io/component-base/cli"
	_ "k8s.io/component-base/metrics/prometheus/clientgo" // registers metrics, as the main functions of both do
	_ "k8s.io/component-base/metrics/prometheus/version"  // same
	manager "k8s.io/kubernetes/cmd/kube-controller-manager/app"
	scheduler "k8s.io/kubernetes/cmd/kube-scheduler/app"
)

const usage = `usage: controllers controller-manager [kube-controller-manager's flags]
       controllers scheduler [kube-scheduler's flags]
`

func main() {
	if len(os.Args) < 2 {
		fmt.Fprint(os.Stderr, usage)
		os.Exit(2)
	}
	var command *cobra.Command
	switch os.Args[1] {
	case "controller-manager":
		command = manager.NewControllerManagerCommand()
	case "scheduler":
		command = scheduler.NewSchedulerCommand()
	case "help", "-h", "--help":
		fmt.Print(usage)
		return
	default:
		fmt.Fprintf(os.Stderr, "controllers: unknown subcommand %q\n%s", os.Args[1], usage)
		os.Exit(2)
	}
	command.SetArgs(os.Args[2:])
	os.Exit(cli.Run(command))
}

//go:build !race

package main

import (
	"github.com/spf13/cobra"
	"go.etcd.io/etcd/etcdutl/v3/etcdutl"
)

// runEtcdutl runs etcdutl's snapshot command: "snapshot restore FILE --data-dir
// DIR --bump-revision N --mark-compacted". The command ends the process with an
// exit code above 0 if the restore fails.
func runEtcdutl(args []string) error {
	command := &cobra.Command{Use: "etcdutl", SilenceUsage: true, SilenceErrors: true}
	command.AddCommand(etcdutl.NewSnapshotCommand())
	command.SetArgs(args)
	return command.Execute()
}

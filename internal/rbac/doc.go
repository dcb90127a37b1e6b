// Package rbac prints the least permissions with which informd can do what its
// config says, as manifests for kubectl. It contacts nothing: what a resource needs
// follows from how package dynwatch watches it: with lists and watches, and its
// look-ups by name are lists, too. Beside that the daemon gets one namespace, to know
// the cluster by. The subcommand of the same name calls it.
//
// rules.go and owners.go compute the permissions, manifest.go prints them.
package rbac

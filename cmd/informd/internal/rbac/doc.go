// Package rbac prints the least permissions with which informd can do what its
// config says, as manifests for kubectl. It contacts nothing: what a resource needs
// follows from how package dynwatch watches it, with lists and watches, the look-ups
// by name being lists, too; what the daemon needs beside that is in [rule.why].
// The subcommand of the same name calls it.
//
// rules.go is about what is allowed, manifest.go about how it is written down.
package rbac

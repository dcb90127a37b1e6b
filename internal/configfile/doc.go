// Package configfile reads the YAML file, the flags and the INFORMD_* environment
// into one checked [config.Config], or into all of its mistakes at once, each located
// by file, line, column and key ([config.Errors]).
//
// It does not connect to anything: whether a resource exists or a destination
// answers is for the packages that use the Config to find out. The subcommands
// of informd call [AddFlags] and [Load]; tests that hold manifests to the same
// rules call [Parse].
//
// # Precedence
//
// Flag, then environment variable, then file, then default. Every single value
// outside of resources and sinks has a variable: INFORMD_ and the key in upper
// case, words and levels joined with "_", so that journal.maxBytes is
// INFORMD_JOURNAL_MAX_BYTES. A variable that is set to nothing counts as not
// set. One that matches no key is worth a warning ([config.Config.Warnings]), unless it is of
// those that the kubelet makes, such as INFORMD_SERVICE_HOST for a Service called
// informd.
//
// # Where to find what
//
//   - load.go, override.go: which file, and the flags and variables over it, and variables
//     without effect
//   - parse.go: the stages
//   - syntax.go, tree.go, explain.go: bytes to a tree whose nodes know their place, and why a text is not YAML
//   - decode.go, sinks.go: the tree into the settings, strictly
//   - schema.go: the JSON Schema of the settings
//   - check.go, checkresources.go, routes.go, when.go, names.go: the rules beyond types
package configfile

// Package informd makes programs that are informd with sink types of their own. Such a
// program has every command of informd, reads the same config, and needs no fork:
//
//	func main() {
//		os.Exit(informd.Main(informd.Options{
//			Name: "myinformd", Version: "1.0.0",
//			Drivers: append(drivers.All(), shout.Driver()),
//		}))
//	}
//
// A sink of the new type is `type: shout` in the config, with the keys of the driver's own
// Config. The driver's Validate reports mistakes with their line, as for other sinks.
// Package sink is the contract of a sink type; package sinktest is its conformance suite.
//
// The commands schema and explain show its keys, with the text of their help tags.
package informd

import (
	"cmp"
	"runtime/debug"

	"github.com/informd/informd/internal/cli"
	"github.com/informd/informd/pkg/sink"
	"github.com/informd/informd/pkg/sink/drivers"
)

// Options are what differs from informd. The zero value is informd.
type Options struct {
	// Name is the program's name in usage lines, errors and the version. Help texts name
	// informd. The default is "informd".
	Name string
	// Version is what the version command prints. The default is the version of the main module
	// that Go has built into the binary, as with go install ...@v0.1.0, else "unknown".
	Version string
	// Drivers are the sink types that a config can name. Of two with one name the first
	// counts. The default is [drivers.All].
	Drivers []sink.Driver
}

// Main runs the command that the arguments of the process name, until it ends or the process
// gets SIGINT or SIGTERM. It returns the exit code: 0 for success, 1 for a failure, 2 for a
// wrong command line or config; the help of each command lists its own. Messages go to the
// standard error. Main changes settings of the process (core files, the collector's pace,
// signals), so a process calls it once.
func Main(o Options) int {
	if o.Drivers == nil {
		o.Drivers = drivers.All()
	}
	return cli.Main(cli.Program{Name: cmp.Or(o.Name, "informd"), Version: cmp.Or(o.Version, builtVersion(), "unknown"), Drivers: o.Drivers})
}

// builtVersion is the version of the main module, empty in a build without one.
func builtVersion() string {
	info, ok := debug.ReadBuildInfo()
	if !ok || info.Main.Version == "(devel)" {
		return ""
	}
	return info.Main.Version
}

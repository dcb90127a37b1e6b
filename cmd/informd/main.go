// Command informd streams every change of the Kubernetes resources that its config lists to
// its sinks. See README.md. Its commands are in internal/cli.
package main

import (
	"os"

	"github.com/informd/informd/pkg/informd"
)

// version is set by the linker. Without it, as after go install, Go's build information has one.
var version string

func main() { os.Exit(informd.Main(informd.Options{Version: version})) }

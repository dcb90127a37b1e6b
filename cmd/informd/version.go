package main

import (
	"context"
	"fmt"
	"runtime"

	"github.com/spf13/pflag"
)

const versionCommandName = "version"

func versionCommand() command {
	return command{
		name: versionCommandName, summary: "print the version",
		long:     "It prints the version of informd, that of Go, and the platform. 'informd --version' is the same.",
		examples: "informd version",
		exits:    "0",
		run: func(_ context.Context, io streams, _ *pflag.FlagSet) error {
			_, err := fmt.Fprintf(io.out, "informd %s %s %s/%s\n", version, runtime.Version(), runtime.GOOS, runtime.GOARCH)
			return err
		},
	}
}

package main

import (
	"context"
	"fmt"
	"runtime"

	"github.com/spf13/pflag"
)

func versionCommand() command {
	return command{
		name: "version", summary: "print the version",
		run: func(_ context.Context, io streams, _ *pflag.FlagSet) error {
			_, err := fmt.Fprintf(io.out, "informd %s %s %s/%s\n", version, runtime.Version(), runtime.GOOS, runtime.GOARCH)
			return err
		},
	}
}

package main

import (
	"os"
	"testing"
)

// TestMain lets the test binary be the replay server and the program of the exec sink as well, as the program
// itself is.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 {
		switch os.Args[1] {
		case "serve":
			exit(serve(os.Args[2:]))
			return
		case "acknowledge":
			exit(acknowledge(os.Stdin, os.Stdout))
			return
		}
	}
	os.Exit(m.Run())
}

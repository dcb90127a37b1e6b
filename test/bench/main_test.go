package main

import (
	"os"
	"testing"
)

// TestMain lets the test binary be the replay server as well, as the program itself is.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "serve" {
		exit(serve(os.Args[2:]))
		return
	}
	os.Exit(m.Run())
}

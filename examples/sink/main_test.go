package main

import (
	"os"
	"testing"
)

// TestMain makes the test binary the program, if it is asked to.
func TestMain(m *testing.M) {
	if os.Getenv("RUN_MAIN") != "" {
		main()
	}
	os.Exit(m.Run())
}

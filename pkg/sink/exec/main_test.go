package exec_test

import (
	"os"
	"testing"

	"go.uber.org/goleak"
)

// TestMain makes the test binary a program for events, if it is asked to.
func TestMain(m *testing.M) {
	switch os.Getenv("EXEC_TEST_PROGRAM") {
	case "handler":
		os.Exit(handle(os.Getenv("EXEC_TEST_DIR"), os.Getenv("EXEC_TEST_ACK")))
	case "informd":
		os.Exit(runSink(os.Getenv("EXEC_TEST_DIR")))
	}
	goleak.VerifyTestMain(m)
}

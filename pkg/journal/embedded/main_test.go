package embedded_test

import (
	"fmt"
	"os"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	if dir := os.Getenv(writerDir); dir != "" {
		if err := appendForever(dir); err != nil {
			fmt.Fprintln(os.Stderr, err)
		}
		os.Exit(1) // it is to be killed
	}
	goleak.VerifyTestMain(m)
}

package jetstream_test

import (
	"fmt"
	"os"
	"testing"

	"go.uber.org/goleak"
)

// A goroutine of nats.go (1.55) reads which channel it is to wait for when it first
// runs. If the publisher was cleaned up by then, that is none, and it waits for ever.
func TestMain(m *testing.M) {
	if dir := os.Getenv(serverDir); dir != "" {
		if err := serveUntilClosed(dir); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	goleak.VerifyTestMain(m, goleak.IgnoreTopFunction("github.com/nats-io/nats.go/jetstream.(*jetStream).resetPendingAcksOnReconnect"))
}

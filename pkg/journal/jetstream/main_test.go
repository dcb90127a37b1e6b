package jetstream_test

import (
	"testing"

	"go.uber.org/goleak"
)

// A goroutine of nats.go (1.55) reads which channel it is to wait for when it first
// runs. If the publisher was cleaned up by then, that is none, and it waits for ever.
func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.IgnoreTopFunction("github.com/nats-io/nats.go/jetstream.(*jetStream).resetPendingAcksOnReconnect"))
}

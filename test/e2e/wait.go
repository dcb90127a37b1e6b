package e2e

import (
	"testing"
	"time"

	"github.com/informd/informd/test/cluster/proc"
)

const (
	// LiveLimit is the time from when discovery serves a resource to when it is
	// watched. It should take less than 2 s; the rest is for busy machines.
	LiveLimit = 10 * time.Second
	// PollingLimit is that of an informd that is not told.
	PollingLimit = 20 * time.Second
	// QuietFor is longer than any pause of an informd that polls.
	QuietFor = 8 * time.Second
)

// WaitAtOnce is Eventually, with little time between two looks. It returns when it
// was so.
func WaitAtOnce(t *testing.T, what string, ok func() bool) time.Time {
	t.Helper()
	end := time.Now().Add(Patience)
	poll := time.NewTicker(10 * time.Millisecond)
	defer poll.Stop()
	for !ok() {
		if time.Now().After(end) {
			t.Fatalf("%s: not within %v", what, Patience)
		}
		<-poll.C
	}
	return time.Now()
}

// Patience is how long a test waits for what must happen.
const Patience = 2 * time.Minute

// Eventually waits until ok holds, and fails the test after patience.
func Eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	end := time.Now().Add(Patience)
	poll := time.NewTicker(100 * time.Millisecond)
	defer poll.Stop()
	for !ok() {
		if time.Now().After(end) {
			t.Fatalf("%s: not within %v", what, Patience)
		}
		<-poll.C
	}
}

// FreeAddress is a loopback address that stays free for the test: no outgoing
// connection can take its port.
func FreeAddress(t *testing.T) string {
	t.Helper()
	port, err := proc.FreePort()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(port.Release)
	return port.Address()
}

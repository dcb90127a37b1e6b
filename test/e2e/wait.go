package e2e

import (
	"net/http"
	"testing"
	"time"

	"k8s.io/client-go/rest"

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

// Patience is how long a test waits for what must happen.
const Patience = 2 * time.Minute

// Must ends a test that an error leaves nothing to check in.
func Must(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
}

// HTTPClient has the rights of a config, and connections that end with the test.
func HTTPClient(t *testing.T, config *rest.Config) *http.Client {
	t.Helper()
	client, err := rest.HTTPClientFor(config)
	Must(t, err)
	t.Cleanup(client.CloseIdleConnections)
	return client
}

// Eventually waits until ok holds, and fails the test after patience.
func Eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	poll(t, 100*time.Millisecond, what, ok)
}

// WaitAtOnce is Eventually, with little time between two looks. It returns when it
// was so.
func WaitAtOnce(t *testing.T, what string, ok func() bool) time.Time {
	t.Helper()
	poll(t, 10*time.Millisecond, what, ok)
	return time.Now()
}

func poll(t *testing.T, pause time.Duration, what string, ok func() bool) {
	t.Helper()
	end := time.Now().Add(Patience)
	poll := time.NewTicker(pause)
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
	Must(t, err)
	t.Cleanup(port.Release)
	return port.Address()
}

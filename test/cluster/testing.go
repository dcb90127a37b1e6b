package cluster

import "testing"

// Start is New for tests: it fails the test on an error, and closes the cluster at
// the end of the test. If the test failed by then, the ends of the servers' logs
// are logged.
func Start(t testing.TB, options Options) *Cluster {
	t.Helper()
	c, err := New(t.Context(), options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			for _, process := range c.processes() {
				t.Logf("%s\n%s", process.Name(), process.LogTail())
			}
		}
		if err := c.Close(); err != nil {
			t.Errorf("close cluster: %v", err)
		}
	})
	return c
}

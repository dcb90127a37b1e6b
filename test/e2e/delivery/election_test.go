package delivery_test

import (
	"strings"
	"testing"

	"github.com/informd/informd/test/e2e"
	"github.com/informd/informd/test/natsserver"
)

// TestClusteredSinkAfterKills: informd is killed and started again, which may read a copy of
// the sink's stream that is behind. That is no failure of the sink.
func TestClusteredSinkAfterKills(t *testing.T) {
	r := e2e.NewRig(t)
	servers := natsserver.StartCluster(t, 3, natsserver.Options{})
	s := r.Setup(e2e.LogJournal)
	s.Sinks = e2e.ClusteredSink(servers)
	d := e2e.NewInformd(t, s)
	d.Start()
	d.WaitForSync(len(r.Kinds))
	end := r.Load()
	for range 3 {
		n := len(d.Records())
		e2e.Eventually(t, "a hundred more events", func() bool { return len(d.Records()) > n+100 })
		d.Kill()
		d.Start()
		d.WaitForLive(len(r.Kinds))
		if log := d.Stderr.String(); strings.Contains(log, "sink unavailable") {
			t.Fatalf("after a restart a sink is failing:\n%s", log)
		}
	}
	end()
}

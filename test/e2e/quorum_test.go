package e2e_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/informd/informd/test/natsserver"
)

// TestQuorumLost: two of three servers of the journal are down for longer than the lease
// lasts. informd waits, says so, and continues when they are back, without a loss.
func TestQuorumLost(t *testing.T) {
	r := newRig(t)
	servers := natsserver.StartCluster(t, 3, natsserver.Options{})
	s := r.setup(natsJournal(natsserver.URLs(servers)) + ", replicas: 3, maxBytes: 256MiB" + longHistory)
	d := newInformd(t, s)
	d.start()
	d.waitForLive(len(r.kinds))
	end := r.load()
	eventually(t, "a hundred events", func() bool { return len(d.records()) > 100 })
	for _, server := range servers[:2] {
		if err := server.Kill(); err != nil {
			t.Fatal(err)
		}
	}
	eventually(t, "readiness says why", func() bool {
		body, code, err := d.get("/readyz")
		return err == nil && code == http.StatusServiceUnavailable && strings.Contains(string(body), "journal lease")
	})
	<-time.After(6 * time.Second) // the lease is over on the server, too
	for _, server := range servers[:2] {
		if err := server.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	eventually(t, "ready again", func() bool {
		_, code, err := d.get("/readyz")
		return err == nil && code == http.StatusOK
	})
	n := len(d.records())
	eventually(t, "a hundred more events", func() bool { return len(d.records()) > n+100 })
	end()
	r.finish(claim{}, d.records)
	select {
	case <-d.exited:
		t.Errorf("informd has ended: %v", d.err)
	default:
	}
}

// TestJournalTooLargeForServer: informd names journal.maxBytes, its size and the next step.
func TestJournalTooLargeForServer(t *testing.T) {
	server := natsserver.Start(t, natsserver.Options{MaxStore: 64 << 20})
	d := newInformd(t, setup{kubeconfig: unreachable(t), resources: "- {resource: pods}", journal: natsJournal(server.URL())})
	d.start()
	d.expectProblem("cannot reserve journal.maxBytes, 10737418240 bytes")
	d.expectProblem("lower journal.maxBytes, or raise the server's max_file_store")
}

// TestStandbyNamesActive: a command to a standby names the active informd, and a takeover
// is no failure of a sink.
func TestStandbyNamesActive(t *testing.T) {
	r := newRig(t)
	// A copy of the sink's stream that is behind is what a successor may read.
	servers := natsserver.StartCluster(t, 3, natsserver.Options{})
	s := r.setup(natsJournal(natsserver.URLs(servers)) + ", replicas: 3, maxBytes: 256MiB")
	s.sinks = fmt.Sprintf("- {name: bus, type: nats, servers: %s, subjectPrefix: events, stream: %s, create: {replicas: 3, maxBytes: 256MiB}}",
		serverList(natsserver.URLs(servers)), busStream)
	active, standby := newInformd(t, s), newInformd(t, s)
	active.start()
	active.waitForSync(len(r.kinds))
	standby.start()
	standby.waitForStandby()
	holder, err := standby.status()
	if err != nil {
		t.Fatal(err)
	}
	for _, command := range [][]string{{"verify"}, {"resnapshot", "pods"}} {
		if output, code := standby.command(command...); code != 1 || !strings.Contains(output, holder.StandbyFor+" is active") {
			t.Errorf("%q ends with %d: %s", command, code, output)
		}
	}
	end := r.load()
	for range 3 {
		n := len(active.records()) + len(standby.records())
		eventually(t, "events", func() bool { return len(active.records())+len(standby.records()) > n+100 })
		active.kill()
		standby.waitForLive(len(r.kinds))
		if log := standby.stderr.String(); strings.Contains(log, "sink unavailable") {
			t.Errorf("after a takeover a sink is failing:\n%s", log)
		}
		active, standby = standby, active
		standby.start()
		standby.waitForStandby()
	}
	end()
}

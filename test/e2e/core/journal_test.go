package core_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/informd/informd/test/cluster"
	"github.com/informd/informd/test/e2e"
)

// TestRestartEmitsNothing: an informd that was stopped, or killed, and started
// again while nothing changed tells no sink anything; what changes then comes out
// as if it had never been away.
func TestRestartEmitsNothing(t *testing.T) {
	for _, mode := range []string{"full", "metadata"} {
		t.Run(mode, func(t *testing.T) {
			r := e2e.NewRig(t)
			h := e2e.StartHook(t)
			d := e2e.NewInformd(t, e2e.Setup{
				Kubeconfig: r.Cluster.Kubeconfig(), Resources: r.Resources(mode), Sinks: e2e.BusSink(r.Nats.URL()) + "\n" + h.Sink(), Journal: e2e.LogJournal,
			})
			d.Start()
			d.WaitForSync(len(r.Kinds))
			r.Write(200)
			e2e.Eventually(t, "stream complete", func() bool { return e2e.Complete(r.Kinds, d.Records(), r.Ledger) })
			d.WaitForLive(len(r.Kinds))
			for name, end := range map[string]func(){"stopped": d.Stop, "killed": d.Kill} {
				d.WaitForRecords()
				lines, stored, calls := len(d.Records()), e2e.StreamEnd(t, r.Nats.URL(), e2e.BusStream), h.Calls()
				end()
				d.Start()
				d.WaitForLive(len(r.Kinds))
				if n := len(d.Records()) - lines; n != 0 {
					t.Errorf("%s: %d new lines in the file: %+v", name, n, d.Records()[lines:])
				}
				if n := e2e.StreamEnd(t, r.Nats.URL(), e2e.BusStream) - stored; n != 0 {
					t.Errorf("%s: %d new messages in JetStream", name, n)
				}
				if n := h.Calls() - calls; n != 0 {
					t.Errorf("%s: the webhook was called %d times", name, n)
				}
				r.Write(10)
				e2e.Eventually(t, "stream complete", func() bool { return e2e.Complete(r.Kinds, d.Records(), r.Ledger) })
				d.WaitForLive(len(r.Kinds))
			}
			r.Finish(e2e.Claim{MetadataOnly: mode == "metadata"}, d.Records)
			if n := e2e.Count(d.Records(), "synced"); n != len(r.Kinds) {
				t.Errorf("%d synced records, want %d", n, len(r.Kinds))
			}
		})
	}
}

// TestKilledUnderLoad: informd is killed again and again while 200 events a second
// come in. Nothing is lost, in JetStream nothing is there twice, and in the file
// only what comes again after a kill.
func TestKilledUnderLoad(t *testing.T) {
	kills := e2e.Number(t, "E2E_KILLS", 12)
	r := e2e.NewRig(t)
	d := e2e.NewInformd(t, r.Setup(e2e.LogJournal+e2e.LongHistory))
	d.Start()
	d.WaitForSync(len(r.Kinds))
	end := r.Load()
	seed := uint64(time.Now().UnixNano())
	random := rand.New(rand.NewPCG(seed, 0))
	t.Logf("seed %d", seed)
	for range kills {
		<-time.After(200*time.Millisecond + time.Duration(random.Int64N(int64(1500*time.Millisecond)))) // from the start on
		d.Kill()
		d.Start()
	}
	end()
	r.Finish(e2e.Claim{}, d.Records)
	d.WaitForLive(len(r.Kinds))
}

// refuses runs informd, which is to end with exit code 1 and these words.
func refuses(d *e2e.Informd, words ...string) {
	d.T.Helper()
	d.Start()
	if code := d.Wait(); code != 1 {
		d.T.Errorf("exit code %d, want 1", code)
	}
	for _, w := range words {
		if !strings.Contains(d.Stderr.String(), w) {
			d.T.Errorf("the log does not say %q:\n%s", w, d.Stderr)
		}
	}
}

// TestJournalDirBelongsToOne: a journal.dir is used by one process at a time, and
// for one cluster only.
func TestJournalDirBelongsToOne(t *testing.T) {
	c := cluster.Start(t, cluster.Options{})
	const resources = "- {resource: configmaps, namespaces: [default]}"
	d := e2e.NewInformd(t, e2e.Setup{Kubeconfig: c.Kubeconfig(), Resources: resources, Journal: e2e.LogJournal})
	d.Start()
	d.WaitForSync(1)
	journal := fmt.Sprintf("%s, dir: %q", e2e.LogJournal, d.JournalDir())

	t.Run("another process", func(t *testing.T) {
		other := e2e.NewInformd(t, e2e.Setup{Kubeconfig: c.Kubeconfig(), Resources: resources, Journal: journal})
		refuses(other, d.JournalDir(), fmt.Sprintf("in use by another informd (pid %d)", d.Cmd.Process.Pid), "set another journal.dir")
		select {
		case <-d.Exited:
			t.Error("the first informd has ended")
		default:
		}
	})

	t.Run("another cluster", func(t *testing.T) {
		elsewhere := cluster.Start(t, cluster.Options{})
		d.Stop()
		other := e2e.NewInformd(t, e2e.Setup{Kubeconfig: elsewhere.Kubeconfig(), Resources: resources, Journal: journal})
		refuses(other, "belongs to another Kubernetes cluster", "kube-system", "journal.dir")
		if n := len(other.Records()); n != 0 {
			t.Errorf("%d events of the wrong cluster: %+v", n, other.Records())
		}
		d.Start() // nothing is lost for the first
		d.WaitForLive(1)
		if n := e2e.Count(d.Records(), "synced"); n != 1 {
			t.Errorf("%d synced records, want 1", n)
		}
	})
}

package e2e_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
	"time"
)

// TestRestartEmitsNothing: an informd that was stopped, or killed, and started
// again while nothing changed tells no sink anything; what changes then comes out
// as if it had never been away.
func TestRestartEmitsNothing(t *testing.T) {
	for _, mode := range []string{"full", "metadata"} {
		t.Run(mode, func(t *testing.T) {
			r := newRig(t)
			h := startHook(t)
			d := newInformd(t, setup{
				kubeconfig: r.cluster.Kubeconfig(), resources: r.resources(mode), sinks: busSink(r.nats.URL()) + "\n" + h.sink(), journal: logJournal,
			})
			d.start()
			d.waitForSync(len(r.kinds))
			r.write(50)
			eventually(t, "stream complete", func() bool { return complete(r.kinds, d.records(), r.ledger) })
			d.waitForLive(len(r.kinds))
			for name, end := range map[string]func(){"stopped": d.stop, "killed": d.kill} {
				d.waitForRecords()
				lines, stored, calls := len(d.records()), streamEnd(t, r.nats.URL(), busStream), h.calls()
				end()
				d.start()
				d.waitForLive(len(r.kinds))
				if n := len(d.records()) - lines; n != 0 {
					t.Errorf("%s: %d new lines in the file: %+v", name, n, d.records()[lines:])
				}
				if n := streamEnd(t, r.nats.URL(), busStream) - stored; n != 0 {
					t.Errorf("%s: %d new messages in JetStream", name, n)
				}
				if n := h.calls() - calls; n != 0 {
					t.Errorf("%s: the webhook was called %d times", name, n)
				}
				r.write(10)
				eventually(t, "stream complete", func() bool { return complete(r.kinds, d.records(), r.ledger) })
				d.waitForLive(len(r.kinds))
			}
			r.finish(claim{metadataOnly: mode == "metadata"}, d.records)
			if n := count(d.records(), "synced"); n != len(r.kinds) {
				t.Errorf("%d synced records, want %d", n, len(r.kinds))
			}
		})
	}
}

// TestKilledUnderLoad: informd is killed again and again while 200 events a second
// come in. Nothing is lost, in JetStream nothing is there twice, and in the file
// only what comes again after a kill.
func TestKilledUnderLoad(t *testing.T) {
	kills := number(t, "E2E_KILLS", 12)
	r := newRig(t)
	d := newInformd(t, r.setup(logJournal+longHistory))
	d.start()
	d.waitForSync(len(r.kinds))
	end := r.load()
	seed := uint64(time.Now().UnixNano())
	random := rand.New(rand.NewPCG(seed, 0))
	t.Logf("seed %d", seed)
	for range kills {
		<-time.After(200*time.Millisecond + time.Duration(random.Int64N(int64(1500*time.Millisecond)))) // from the start on
		d.kill()
		d.start()
	}
	end()
	r.finish(claim{}, d.records)
	d.waitForLive(len(r.kinds))
}

// number is the value of an environment variable, or the default.
func number(t *testing.T, variable string, otherwise int) int {
	t.Helper()
	text := os.Getenv(variable)
	if text == "" {
		return otherwise
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		t.Fatal(fmt.Errorf("%s: %w", variable, err))
	}
	return n
}

package delivery_test

import (
	"fmt"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/informd/informd/test/e2e"
)

func newPair(t *testing.T, sinks ...string) *e2e.Pair { return e2e.NewPairWith(t, 0, sinks...) }

// TestFollowerShowsObjects: history, gaps and tail of a follower are those of its leader, and other commands
// name the leader.
func TestFollowerShowsObjects(t *testing.T) {
	p := newPair(t)
	var out e2e.LockedBuffer
	tail := exec.CommandContext(t.Context(), e2e.Binary(), "tail", "configmaps", "-o", "json", "--config", p.Follower.Config)
	tail.Stdout, tail.Stderr = &out, &out
	e2e.Must(t, tail.Start())
	configMaps := p.Client.Resource(e2e.ConfigMapKind().GVR).Namespace("default")
	n := 0
	e2e.Eventually(t, "the tail shows an event", func() bool {
		n++
		e2e.CreateConfigMap(t, configMaps, fmt.Sprint("shown-", n), nil)
		return strings.Contains(out.String(), "shown-")
	})
	e2e.Must(t, tail.Process.Signal(os.Interrupt))
	if err := tail.Wait(); err != nil {
		t.Errorf("after an interrupt: %v, %s", err, &out)
	}
	if text := p.Follower.Must("history", "configmaps/default/shown-1"); !strings.Contains(text, "added") {
		t.Errorf("history: %s", text)
	}
	p.Follower.Must("gaps")
	if text, code := p.Follower.Command("rewind", "--sink", "bus", "--since", "1m"); code != 1 || !strings.Contains(text, p.Leader.Admin) {
		t.Errorf("rewind: %d, %s", code, text)
	}
	p.Leader.Kill()
	e2e.Eventually(t, "it answers by itself as leader", func() bool {
		text, code := p.Follower.Command("history", "configmaps/default/shown-1")
		return code == 0 && strings.Contains(text, "added")
	})
}

// TestFrozenLeaderIsReplaced: a leader that stands still for longer than its lease does no harm when it goes
// on, and becomes a follower.
func TestFrozenLeaderIsReplaced(t *testing.T) {
	p := newPair(t)
	end := p.Load()
	p.WaitForEvents(100)
	e2e.Must(t, p.Leader.Cmd.Process.Signal(syscall.SIGSTOP))
	p.WaitForEvents(100)
	e2e.Must(t, p.Leader.Cmd.Process.Signal(syscall.SIGCONT))
	p.Leader.WaitForFollowing(p.Follower)
	p.WaitForEvents(100)
	end()
	p.Finish()
}

// TestFollowerFrozen: a follower that stands still holds nothing up for long, and is in sync again later.
func TestFollowerFrozen(t *testing.T) {
	p := newPair(t)
	end := p.Load()
	e2e.Must(t, p.Follower.Cmd.Process.Signal(syscall.SIGSTOP))
	p.WaitForEvents(200)
	e2e.Eventually(t, "the leader goes on without it", func() bool { return p.Leader.Metrics()["informd_replica_in_sync_followers"] == 0 })
	e2e.Must(t, p.Follower.Cmd.Process.Signal(syscall.SIGCONT))
	p.Follower.WaitForFollowing(p.Leader)
	p.Leader.Kill()
	p.WaitForEvents(100)
	end()
	p.Finish()
}

// TestSinkDownWhileTheVolumeIsLost: a sink is down while objects change and go, and the leader dies with its
// volume. The follower has all of it for the sink.
func TestSinkDownWhileTheVolumeIsLost(t *testing.T) {
	h := e2e.StartHook(t)
	p := newPair(t, h.Sink())
	h.Set(func(e2e.Record) int { return http.StatusServiceUnavailable })
	end := p.Load()
	p.WaitForEvents(500)
	end()
	e2e.Eventually(t, "JetStream complete", func() bool {
		return e2e.Complete(p.Kinds, e2e.ReadStream(t, p.Nats.URL(), e2e.BusStream), p.Ledger)
	})
	p.Leader.Kill()
	e2e.Must(t, os.RemoveAll(p.Leader.JournalDir()))
	h.Set(nil)
	e2e.Eventually(t, "the webhook has everything", func() bool { return e2e.Complete(p.Kinds, h.Events(0), p.Ledger) })
	unique, repeats := e2e.Once(t, h.Events(0))
	t.Logf("%d events, %d repeated", len(unique), repeats)
	for _, k := range p.Kinds {
		t.Run(k.GVR.Resource, func(t *testing.T) { e2e.Check(t, k, unique, p.Ledger, p.Client, e2e.Claim{}) })
	}
	p.Leader.Start() // with nothing
	p.Leader.WaitForFollowing(p.Follower)
}

// TestPairWithoutAPIServer: while nobody reaches the API server, the pair waits, and the same informd goes on. The watch
// cache of the new process begins later, so the history between is read name by name.
func TestPairWithoutAPIServer(t *testing.T) {
	p := newPair(t)
	p.Write(20)
	out := e2e.Outage{Before: make(map[string]uint64), Whole: true}
	for _, k := range p.Kinds {
		maps.Copy(out.Before, e2e.BeginOutage(k, e2e.ReadStream(t, p.Nats.URL(), e2e.BusStream)).Before)
	}
	api := p.Cluster.APIServer(0)
	e2e.Must(t, api.Kill())
	<-time.After(3 * e2e.PairDuration)
	e2e.Must(t, api.Start(t.Context()))
	p.Write(20)
	revision, err := p.Cluster.Revision(t.Context())
	e2e.Must(t, err)
	out.After = uint64(revision)
	p.Finish(out)
	p.Follower.WaitForFollowing(p.Leader)
}

// TestBothKilled: both are killed under load, and the leader comes back last.
func TestBothKilled(t *testing.T) {
	p := newPair(t)
	end := p.Load()
	p.WaitForEvents(100)
	p.Follower.Kill()
	p.Leader.Kill()
	p.Follower.Start()
	p.Leader.Start()
	p.WaitForEvents(100)
	end()
	p.Finish()
}

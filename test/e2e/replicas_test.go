package e2e_test

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/uuid"

	"github.com/informd/informd/test/cluster"
)

// pairDuration is the lease duration of the tests' replicas, in place of 8 s.
const pairDuration = 4 * time.Second

// pair is two replicas of informd on a rig.
type pair struct {
	*rig

	leader, follower *informd
}

func newPair(t *testing.T, sinks ...string) *pair { return newPairWith(t, 0, sinks...) }

// newPairWith is a pair with a number of objects more, in 100 targets.
func newPairWith(t *testing.T, objects int, sinks ...string) *pair {
	r, targets := newRig(t), 0
	s := r.setup(logJournal + longHistory)
	if objects > 0 {
		targets = 100
		s.resources += "\n" + storeAccounts(t, r.cluster, objects, targets)
	}
	s.replicas = fmt.Sprintf("duration: %s", pairDuration)
	s.sinks = strings.Join(append(sinks, s.sinks), "\n")
	s.admin = fmt.Sprintf(", tokenFile: %q", writeFile(t, "token", "the token of both replicas\n"))
	p := &pair{rig: r, leader: newInformd(t, s), follower: newInformd(t, s)}
	p.leader.start()
	p.leader.waitForLive(len(r.kinds) + targets)
	p.follower.start()
	p.follower.waitForFollowing(p.leader)
	return p
}

// storeAccounts puts ServiceAccounts of 1 KB into etcd, in a number of namespaces, and returns the entry that watches
// each namespace with a target of its own.
func storeAccounts(t *testing.T, c *cluster.Cluster, objects, namespaces int) (entry string) {
	t.Helper()
	put, names := directly(t, c), make([]string, namespaces)
	metadata := func(name, namespace string) map[string]any {
		return map[string]any{
			"name": name, "namespace": namespace, "uid": uuid.NewUUID(), "creationTimestamp": time.Now().UTC().Format(time.RFC3339),
			"annotations": map[string]any{"content": strings.Repeat("configuration = \"value\"\n", 30)},
		}
	}
	for i := range names {
		names[i] = fmt.Sprint("many-", i)
		namespace := map[string]any{"kind": "Namespace", "apiVersion": "v1", "metadata": metadata(names[i], ""), "status": map[string]any{"phase": "Active"}}
		if err := put(t.Context(), "/registry/namespaces/"+names[i], namespace); err != nil {
			t.Fatal(err)
		}
	}
	inParallel(t, objects, func(ctx context.Context, i int) error {
		namespace, name := names[i%namespaces], fmt.Sprint("object-", i)
		return put(ctx, "/registry/serviceaccounts/"+namespace+"/"+name, map[string]any{
			"kind": "ServiceAccount", "apiVersion": "v1", "metadata": metadata(name, namespace),
		})
	})
	return fmt.Sprintf("- {resource: serviceaccounts, namespaces: [%s]}", strings.Join(names, ", "))
}

// waitForFollowing waits until informd has a whole copy of the log of a leader, and the leader counts on it.
func (d *informd) waitForFollowing(leader *informd) {
	d.t.Helper()
	eventually(d.t, "the follower is in sync, and ready", func() bool {
		s, err := d.status()
		if err != nil || s.Follower == nil || !s.Follower.InSync || s.Follower.Leader != leader.admin {
			return false
		}
		// One that stood still shows what was, for a moment.
		_, code, err := d.get("/readyz")
		return err == nil && code == http.StatusOK
	})
	eventually(d.t, "the leader counts on it", func() bool {
		return leader.metrics()["informd_replica_in_sync_followers"] == 1
	})
}

// waitForEvents waits until the sink bus has more events.
func (p *pair) waitForEvents(n uint64) time.Duration {
	p.t.Helper()
	began, end := time.Now(), streamEnd(p.t, p.nats.URL(), busStream)
	eventually(p.t, "more events", func() bool { return streamEnd(p.t, p.nats.URL(), busStream) >= end+n })
	return time.Since(began)
}

// finish waits until everything that was written is in the stream, and holds that to the claim that history could get
// lost in the outages.
func (p *pair) finish(outages ...outage) {
	p.t.Helper()
	records := func() []record { return readStream(p.t, p.nats.URL(), busStream) }
	eventually(p.t, "JetStream complete", func() bool { return complete(p.kinds, records(), p.ledger) })
	all := records()
	for _, k := range p.kinds {
		p.t.Run(k.gvr.Resource, func(t *testing.T) { check(t, k, all, p.ledger, p.client, claim{outages: outages}) })
	}
}

// TestFollowerTakesOver: the leader is killed, or ended with SIGTERM, and the follower goes on where it was. The former
// leader becomes the follower. E2E_TAKEOVERS is how often, E2E_OBJECTS how many objects more there are, in 100 targets.
func TestFollowerTakesOver(t *testing.T) {
	p := newPairWith(t, number(t, "E2E_OBJECTS", 0))
	took := map[bool][]time.Duration{}
	end := p.load()
	for n := range number(t, "E2E_TAKEOVERS", 3) {
		p.waitForEvents(100)
		kill := n%2 == 0
		if kill {
			p.leader.kill()
		} else {
			p.leader.stop()
		}
		took[kill] = append(took[kill], p.waitForEvents(1))
		p.leader, p.follower = p.follower, p.leader
		p.follower.start()
		p.follower.waitForFollowing(p.leader)
	}
	end()
	for kill, all := range took {
		slices.Sort(all)
		t.Logf("killed: %v, %d times: an event after %v (least), %v (median), %v (most)", kill, len(all), all[0], all[len(all)/2], all[len(all)-1])
	}
	p.finish()
}

// TestFollowerShowsObjects: history, gaps and tail of a follower are those of its leader, and other commands
// name the leader.
func TestFollowerShowsObjects(t *testing.T) {
	p := newPair(t)
	var out lockedBuffer
	tail := exec.CommandContext(t.Context(), informdBinary, "tail", "configmaps", "-o", "json", "--config", p.follower.config)
	tail.Stdout, tail.Stderr = &out, &out
	if err := tail.Start(); err != nil {
		t.Fatal(err)
	}
	configMaps := p.client.Resource(configMapKind().gvr).Namespace("default")
	n := 0
	eventually(t, "the tail shows an event", func() bool {
		n++
		object := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": fmt.Sprint("shown-", n)}}}
		if _, err := configMaps.Create(t.Context(), object, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		return strings.Contains(out.String(), "shown-")
	})
	if err := tail.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	if err := tail.Wait(); err != nil {
		t.Errorf("after an interrupt: %v, %s", err, &out)
	}
	if text := p.follower.must("history", "configmaps/default/shown-1"); !strings.Contains(text, "added") {
		t.Errorf("history: %s", text)
	}
	p.follower.must("gaps")
	if text, code := p.follower.command("rewind", "--sink", "bus", "--since", "1m"); code != 1 || !strings.Contains(text, p.leader.admin) {
		t.Errorf("rewind: %d, %s", code, text)
	}
	p.leader.kill()
	eventually(t, "it answers by itself as leader", func() bool {
		text, code := p.follower.command("history", "configmaps/default/shown-1")
		return code == 0 && strings.Contains(text, "added")
	})
}

// TestFrozenLeaderIsReplaced: a leader that stands still for longer than its lease does no harm when it goes
// on, and becomes a follower.
func TestFrozenLeaderIsReplaced(t *testing.T) {
	p := newPair(t)
	end := p.load()
	p.waitForEvents(100)
	if err := p.leader.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	p.waitForEvents(100)
	if err := p.leader.cmd.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	p.leader.waitForFollowing(p.follower)
	p.waitForEvents(100)
	end()
	p.finish()
}

// TestFollowerFrozen: a follower that stands still holds nothing up for long, and is in sync again later.
func TestFollowerFrozen(t *testing.T) {
	p := newPair(t)
	end := p.load()
	if err := p.follower.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	p.waitForEvents(200)
	eventually(t, "the leader goes on without it", func() bool { return p.leader.metrics()["informd_replica_in_sync_followers"] == 0 })
	if err := p.follower.cmd.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	p.follower.waitForFollowing(p.leader)
	p.leader.kill()
	p.waitForEvents(100)
	end()
	p.finish()
}

// TestSinkDownWhileTheVolumeIsLost: a sink is down while objects change and go, and the leader dies with its
// volume. The follower has all of it for the sink.
func TestSinkDownWhileTheVolumeIsLost(t *testing.T) {
	h := startHook(t)
	p := newPair(t, h.sink())
	h.set(func(record) int { return http.StatusServiceUnavailable })
	end := p.load()
	p.waitForEvents(500)
	end()
	eventually(t, "JetStream complete", func() bool {
		return complete(p.kinds, readStream(t, p.nats.URL(), busStream), p.ledger)
	})
	p.leader.kill()
	if err := os.RemoveAll(p.leader.journalDir()); err != nil {
		t.Fatal(err)
	}
	h.set(nil)
	eventually(t, "the webhook has everything", func() bool { return complete(p.kinds, h.events(0), p.ledger) })
	unique, repeats := once(t, h.events(0))
	t.Logf("%d events, %d repeated", len(unique), repeats)
	for _, k := range p.kinds {
		t.Run(k.gvr.Resource, func(t *testing.T) { check(t, k, unique, p.ledger, p.client, claim{}) })
	}
	p.leader.start() // with nothing
	p.leader.waitForFollowing(p.follower)
}

// TestPairWithoutAPIServer: while nobody reaches the API server, the pair waits, and the same informd goes on. The watch
// cache of the new process begins later, so the history between is read name by name.
func TestPairWithoutAPIServer(t *testing.T) {
	p := newPair(t)
	p.write(20)
	out := outage{before: make(map[string]uint64), whole: true}
	for _, k := range p.kinds {
		maps.Copy(out.before, beginOutage(k, readStream(t, p.nats.URL(), busStream)).before)
	}
	api := p.cluster.APIServer(0)
	if err := api.Kill(); err != nil {
		t.Fatal(err)
	}
	<-time.After(3 * pairDuration)
	if err := api.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	p.write(20)
	revision, err := p.cluster.Revision(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	out.after = uint64(revision)
	p.finish(out)
	p.follower.waitForFollowing(p.leader)
}

// TestBothKilled: both are killed under load, and the leader comes back last.
func TestBothKilled(t *testing.T) {
	p := newPair(t)
	end := p.load()
	p.waitForEvents(100)
	p.follower.kill()
	p.leader.kill()
	p.follower.start()
	p.leader.start()
	p.waitForEvents(100)
	end()
	p.finish()
}

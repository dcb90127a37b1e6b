package e2e_test

import (
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/client-go/dynamic"
)

// result is what a command that runs beside the test came to.
type result struct {
	output string
	code   int
}

// beside runs a command of informd while the test goes on.
func (d *informd) beside(args ...string) <-chan result {
	done := make(chan result, 1)
	go func() {
		output, code := d.command(args...)
		done <- result{output, code}
	}()
	return done
}

// TestResnapshotOfOneSink: amid changes one sink gets the objects of a resource anew,
// also when its destination is down for a while; the other one and the journal's stream
// get nothing. A kill in the middle shows.
func TestResnapshotOfOneSink(t *testing.T) {
	r := newRig(t)
	h := startHook(t)
	d := newInformd(t, setup{
		kubeconfig: r.cluster.Kubeconfig(), resources: r.resources("full"), journal: logJournal,
		sinks: fmt.Sprintf("- {name: hook, type: webhook, url: %q, start: now}", h.url),
	})
	r.ledger.begin()
	d.start()
	d.waitForSync(len(r.kinds))
	end := r.load()
	for _, k := range r.kinds {
		before := len(h.events(0))
		output := d.must("resnapshot", k.target(), "--sink", "hook")
		checkRun(t, k, h.events(before), output)
	}
	h.set(func(record) int { return http.StatusServiceUnavailable })
	before := len(h.events(0))
	waiting := d.beside("resnapshot", "core/pods", "--sink", "hook")
	failures := h.calls() + 3
	eventually(t, "a destination that is down", func() bool { return h.calls() > failures })
	h.set(nil)
	if got := <-waiting; got.code != 0 {
		t.Errorf("exit code %d: %s", got.code, got.output)
	} else {
		checkRun(t, podKind(), h.events(before), got.output)
	}
	end()
	eventually(t, "file complete", func() bool { return complete(r.kinds, d.records(), r.ledger) })
	d.waitForLive(len(r.kinds))
	for _, k := range r.kinds {
		check(t, k, d.records(), r.ledger, r.client, claim{})
		checkOrder(t, k, h.events(0))
		before := len(h.events(0))
		d.must("resnapshot", k.target(), "--sink", "hook")
		checkStates(t, k, d.records(), h.events(before))
	}
	if n := count(d.records(), "snapshot") + count(d.records(), "synced"); n != firstSnapshot(d.records()) {
		t.Errorf("the other sink got %d snapshots and records, want %d", n, firstSnapshot(d.records()))
	}
	d.must("verify")
	killInResnapshot(t, d, h, r.client, len(r.kinds))
}

// firstSnapshot counts what is of first lists.
func firstSnapshot(records []record) (n int) {
	for _, x := range records {
		if (x.Op == "snapshot" || x.Op == "synced") && !x.Replay {
			n++
		}
	}
	return n
}

// checkOrder: no state of an object follows a newer one.
func checkOrder(t *testing.T, k kind, records []record) {
	t.Helper()
	last := make(map[string]uint64)
	for _, x := range records {
		if groupOrCore(x.Group)+"/"+x.Resource != k.target() || x.control() {
			continue
		}
		if x.ResourceVersion < last[x.UID] {
			t.Errorf("%s follows revision %d of the same object", x.ID, last[x.UID])
		}
		last[x.UID] = x.ResourceVersion
	}
}

// checkStates compares a run in which nothing changed with what another sink has: each
// object that exists, as it came last.
func checkStates(t *testing.T, k kind, all, again []record) {
	t.Helper()
	want := make(map[string]string)
	for _, x := range all {
		switch {
		case groupOrCore(x.Group)+"/"+x.Resource != k.target() || x.control():
		case x.Op == "deleted":
			delete(want, x.UID)
		default:
			want[x.UID] = fmt.Sprint(x.ResourceVersion, x.Ordinal, string(x.Data.Object))
		}
	}
	got := make(map[string]string)
	for _, x := range again {
		if x.reannounced() {
			got[x.UID] = fmt.Sprint(x.ResourceVersion, x.Ordinal, string(x.Data.Object))
		}
	}
	if len(got) != len(want) {
		t.Errorf("%s: %d objects, want %d", k.target(), len(got), len(want))
	}
	for uid, state := range want {
		if got[uid] != state {
			t.Errorf("%s %s is\n%s\nwant\n%s", k.target(), uid, got[uid], state)
		}
	}
}

// killInResnapshot: the command fails, and the next start makes the re-snapshot, with the
// same run.
func killInResnapshot(t *testing.T, d *informd, h *hook, client dynamic.Interface, targets int) {
	t.Helper()
	before, taken := len(h.events(0)), 0
	h.set(func(record) int {
		if taken++; taken > 4 {
			return http.StatusServiceUnavailable
		}
		return 0
	})
	waiting := d.beside("resnapshot", "core/configmaps", "--sink", "hook")
	eventually(t, "its beginning", func() bool { return len(h.events(before)) == 4 })
	begin := h.events(before)[0]
	d.kill()
	if got := <-waiting; got.code != 1 {
		t.Errorf("exit code %d: %s", got.code, got.output)
	}
	h.set(nil)
	d.start()
	eventually(t, "its end", func() bool { return count(h.events(before), "synced") == 1 })
	d.waitForLive(targets)
	events := h.events(before)
	if end := events[len(events)-1]; begin.Op != "begin" || begin.Run == 0 || end.Op != "synced" || end.Run != begin.Run {
		t.Errorf("the re-snapshot begins with %+v and ends with %+v", begin, end)
	}
	checkStates(t, configMapKind(), d.records(), events)

	h.set(func(record) int { return http.StatusServiceUnavailable })
	if err := newWriter(client, configMapKind(), newLedger(), 1).create(t.Context(), "while-the-sink-is-down"); err != nil {
		t.Fatal(err)
	}
	eventually(t, "a sink that is down", func() bool { return strings.Contains(d.must("status"), "retrying") })
	before = len(h.events(0))
	if output := d.must("resnapshot", "core/configmaps", "--sink", "hook"); !strings.Contains(output, "pending") {
		t.Errorf("the command says\n%s", output)
	}
	if output := d.must("status"); !strings.Contains(output, "PENDING RE-SNAPSHOT") {
		t.Errorf("the status does not show it:\n%s", output)
	}
	d.kill()
	h.set(nil)
	d.start()
	eventually(t, "the re-snapshot that was pending", func() bool { return count(h.events(before), "synced") == 1 })
	d.waitForLive(targets)
	before = len(h.events(0))
	output := d.must("resnapshot", "core/configmaps", "--sink", "hook")
	checkResnapshot(t, configMapKind(), h.events(before), output)
	checkStates(t, configMapKind(), d.records(), h.events(before))
}

// TestResnapshotOfNothing: mistakes are refused, with what there is instead.
func TestResnapshotOfNothing(t *testing.T) {
	r := newRig(t)
	d := startInformd(t, r.cluster.Kubeconfig(), "- {resource: configmaps}", "")
	d.waitForSync(1)
	for _, c := range []struct{ resource, sink, says string }{
		{"configmaps", "nobody", `there is no sink "nobody" (sinks: all)`},
		{"nothings", "all", `does not watch the resource "nothings" (watched resources: configmaps)`},
	} {
		output, code := d.command("resnapshot", c.resource, "--sink", c.sink)
		if code != 1 || !strings.Contains(output, c.says) {
			t.Errorf("%s to %s: exit code %d: %s", c.resource, c.sink, code, output)
		}
	}
}

// TestNewSinkGetsWhatIsWatchedNow: resources and namespaces that the config has no more
// are not in the snapshot of a sink that is added, with the reload or later; one that
// is not served is.
func TestNewSinkGetsWhatIsWatchedNow(t *testing.T) {
	r := newRig(t)
	s := setup{
		kubeconfig: r.cluster.Kubeconfig(), journal: logJournal,
		resources: "- {resource: configmaps}\n- {resource: namespaces}\n- {resource: services}",
	}
	d := newInformd(t, s)
	d.start()
	d.waitForSync(3)
	d.waitForLive(3)
	s.resources = "- {resource: configmaps, namespaces: [\"kube-*\"], scope: cluster}\n- {resource: services}\n- {group: nobody.example.com, resource: things}"
	for _, name := range []string{"with", "later"} {
		path := filepath.Join(d.dir, name)
		s.sinks += fmt.Sprintf("- {name: %s, type: file, path: %q}\n", name, path)
		d.configure(s)
		if code := d.reload(); code != http.StatusOK {
			t.Fatalf("reload: %d", code)
		}
		var file eventFile
		eventually(t, "the snapshot", func() bool {
			got := make(map[string]int)
			for _, x := range file.read(t, path) {
				if x.Op == "snapshot" {
					got[x.Resource]++
				}
			}
			return got["configmaps"] > 0 && got["services"] > 0
		})
		for _, x := range file.read(t, path) {
			if x.Resource == "namespaces" || x.Resource == "configmaps" && !x.control() && !strings.HasPrefix(x.Namespace, "kube-") {
				t.Errorf("%s: %s of %s/%s", name, x.Op, x.Namespace, x.Resource)
			}
		}
	}
}

package delivery_test

import (
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/client-go/dynamic"

	"github.com/informd/informd/test/e2e"
)

// result is what a command that runs beside the test came to.
type result struct {
	output string
	code   int
}

// beside runs a command of informd while the test goes on.
func beside(d *e2e.Informd, args ...string) <-chan result {
	done := make(chan result, 1)
	go func() {
		output, code := d.Command(args...)
		done <- result{output, code}
	}()
	return done
}

// TestResnapshotOfOneSink: amid changes one sink gets the objects of a resource anew,
// also when its destination is down for a while; the other one and the journal's stream
// get nothing. A kill in the middle shows.
func TestResnapshotOfOneSink(t *testing.T) {
	r, h, d, end := startUnderLoad(t)
	for _, k := range r.Kinds {
		before := len(h.Events(0))
		output := d.Must("resnapshot", k.Target(), "--sink", "hook")
		checkRun(t, k, h.Events(before), output)
	}
	h.Set(func(e2e.Record) int { return http.StatusServiceUnavailable })
	before := len(h.Events(0))
	waiting := beside(d, "resnapshot", "core/pods", "--sink", "hook")
	failures := h.Calls() + 3
	e2e.Eventually(t, "a destination that is down", func() bool { return h.Calls() > failures })
	h.Set(nil)
	if got := <-waiting; got.code != 0 {
		t.Errorf("exit code %d: %s", got.code, got.output)
	} else {
		checkRun(t, e2e.PodKind(), h.Events(before), got.output)
	}
	end()
	e2e.Eventually(t, "file complete", func() bool { return e2e.Complete(r.Kinds, d.Records(), r.Ledger) })
	d.WaitForLive(len(r.Kinds))
	for _, k := range r.Kinds {
		e2e.Check(t, k, d.Records(), r.Ledger, r.Client, e2e.Claim{})
		checkOrder(t, k, h.Events(0))
		before := len(h.Events(0))
		d.Must("resnapshot", k.Target(), "--sink", "hook")
		checkStates(t, k, d.Records(), h.Events(before))
	}
	if n := e2e.Count(d.Records(), "snapshot") + e2e.Count(d.Records(), "synced"); n != firstSnapshot(d.Records()) {
		t.Errorf("the other sink got %d snapshots and records, want %d", n, firstSnapshot(d.Records()))
	}
	d.Must("verify")
	killInResnapshot(t, d, h, r.Client, len(r.Kinds))
}

// firstSnapshot counts what is of first lists.
func firstSnapshot(records []e2e.Record) (n int) {
	for _, x := range records {
		if (x.Op == "snapshot" || x.Op == "synced") && !x.Replay {
			n++
		}
	}
	return n
}

// checkOrder: no state of an object follows a newer one.
func checkOrder(t *testing.T, k e2e.Kind, records []e2e.Record) {
	t.Helper()
	last := make(map[string]uint64)
	for _, x := range records {
		if e2e.GroupOrCore(x.Group)+"/"+x.Resource != k.Target() || x.Control() {
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
func checkStates(t *testing.T, k e2e.Kind, all, again []e2e.Record) {
	t.Helper()
	want := make(map[string]string)
	for _, x := range all {
		switch {
		case e2e.GroupOrCore(x.Group)+"/"+x.Resource != k.Target() || x.Control():
		case x.Op == "deleted":
			delete(want, x.UID)
		default:
			want[x.UID] = fmt.Sprint(x.ResourceVersion, x.Ordinal, string(x.Data.Object))
		}
	}
	got := make(map[string]string)
	for _, x := range again {
		if x.Reannounced() {
			got[x.UID] = fmt.Sprint(x.ResourceVersion, x.Ordinal, string(x.Data.Object))
		}
	}
	if len(got) != len(want) {
		t.Errorf("%s: %d objects, want %d", k.Target(), len(got), len(want))
	}
	for uid, state := range want {
		if got[uid] != state {
			t.Errorf("%s %s is\n%s\nwant\n%s", k.Target(), uid, got[uid], state)
		}
	}
}

// killInResnapshot: the command fails, and the next start makes the re-snapshot, with the
// same run.
func killInResnapshot(t *testing.T, d *e2e.Informd, h *e2e.Hook, client dynamic.Interface, targets int) {
	t.Helper()
	before, taken := len(h.Events(0)), 0
	h.Set(func(e2e.Record) int {
		if taken++; taken > 4 {
			return http.StatusServiceUnavailable
		}
		return 0
	})
	waiting := beside(d, "resnapshot", "core/configmaps", "--sink", "hook")
	e2e.Eventually(t, "its beginning", func() bool { return len(h.Events(before)) == 4 })
	begin := h.Events(before)[0]
	d.Kill()
	if got := <-waiting; got.code != 1 {
		t.Errorf("exit code %d: %s", got.code, got.output)
	}
	h.Set(nil)
	d.Start()
	e2e.Eventually(t, "its end", func() bool { return e2e.Count(h.Events(before), "synced") == 1 })
	d.WaitForLive(targets)
	events := h.Events(before)
	if end := events[len(events)-1]; begin.Op != "begin" || begin.Run == 0 || end.Op != "synced" || end.Run != begin.Run {
		t.Errorf("the re-snapshot begins with %+v and ends with %+v", begin, end)
	}
	checkStates(t, e2e.ConfigMapKind(), d.Records(), events)

	h.Set(func(e2e.Record) int { return http.StatusServiceUnavailable })
	e2e.Must(t, e2e.NewWriter(client, e2e.ConfigMapKind(), e2e.NewLedger(), 1).Create(t.Context(), "while-the-sink-is-down"))
	e2e.Eventually(t, "a sink that is down", func() bool { return strings.Contains(d.Must("status"), "retrying") })
	before = len(h.Events(0))
	if output := d.Must("resnapshot", "core/configmaps", "--sink", "hook"); !strings.Contains(output, "pending") {
		t.Errorf("the command says\n%s", output)
	}
	if output := d.Must("status"); !strings.Contains(output, "PENDING RE-SNAPSHOT") {
		t.Errorf("the status does not show it:\n%s", output)
	}
	d.Kill()
	h.Set(nil)
	d.Start()
	e2e.Eventually(t, "the re-snapshot that was pending", func() bool { return e2e.Count(h.Events(before), "synced") == 1 })
	d.WaitForLive(targets)
	before = len(h.Events(0))
	output := d.Must("resnapshot", "core/configmaps", "--sink", "hook")
	checkResnapshot(t, e2e.ConfigMapKind(), h.Events(before), output)
	checkStates(t, e2e.ConfigMapKind(), d.Records(), h.Events(before))
}

// TestNewSinkGetsWhatIsWatchedNow: resources and namespaces that the config has no more
// are not in the snapshot of a sink that is added, with the reload or later; one that
// is not served is.
func TestNewSinkGetsWhatIsWatchedNow(t *testing.T) {
	r := e2e.NewRig(t)
	s := e2e.Setup{
		Kubeconfig: r.Cluster.Kubeconfig(), Journal: e2e.LogJournal,
		Resources: "- {resource: configmaps}\n- {resource: namespaces}\n- {resource: services}",
	}
	d := e2e.NewInformd(t, s)
	d.Start()
	d.WaitForSync(3)
	d.WaitForLive(3)
	s.Resources = "- {resource: configmaps, namespaces: [\"kube-*\"], scope: cluster}\n- {resource: services}\n- {group: nobody.example.com, resource: things}"
	for _, name := range []string{"with", "later"} {
		path := filepath.Join(d.Dir, name)
		s.Sinks += fmt.Sprintf("- {name: %s, type: file, path: %q}\n", name, path)
		d.Configure(s)
		if code := d.Reload(); code != http.StatusOK {
			t.Fatalf("reload: %d", code)
		}
		var file e2e.EventFile
		e2e.Eventually(t, "the snapshot", func() bool {
			got := make(map[string]int)
			for _, x := range file.Read(t, path) {
				if x.Op == "snapshot" {
					got[x.Resource]++
				}
			}
			return got["configmaps"] > 0 && got["services"] > 0
		})
		for _, x := range file.Read(t, path) {
			if x.Resource == "namespaces" || x.Resource == "configmaps" && !x.Control() && !strings.HasPrefix(x.Namespace, "kube-") {
				t.Errorf("%s: %s of %s/%s", name, x.Op, x.Namespace, x.Resource)
			}
		}
	}
}

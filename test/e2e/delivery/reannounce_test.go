package delivery_test

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/informd/informd/test/e2e"
)

// startUnderLoad runs informd with a hook that gets nothing of before, and changes objects until end is called.
func startUnderLoad(t *testing.T) (r *e2e.Rig, h *e2e.Hook, d *e2e.Informd, end func()) {
	t.Helper()
	r = e2e.NewRig(t)
	h = e2e.StartHook(t)
	d = e2e.NewInformd(t, e2e.Setup{
		Kubeconfig: r.Cluster.Kubeconfig(), Resources: r.Resources("full"), Journal: e2e.LogJournal,
		Sinks: fmt.Sprintf("- {name: hook, type: webhook, url: %q, start: now}", h.URL),
	})
	r.Ledger.Begin()
	d.Start()
	d.WaitForSync(len(r.Kinds))
	return r, h, d, r.Load()
}

// TestResnapshot: amid changes all objects of a resource are announced again on
// request, to every sink, and chains stay whole.
func TestResnapshot(t *testing.T) {
	r, h, d, end := startUnderLoad(t)
	outputs := make(map[string]string)
	for _, k := range r.Kinds {
		name := k.GVR.Resource
		if k.GVR.Group != "" {
			name = k.GVR.Group + "/" + name
		}
		outputs[k.GVR.Resource] = d.Must("resnapshot", name)
	}
	end()
	e2e.Eventually(t, "file complete", func() bool { return e2e.Complete(r.Kinds, d.Records(), r.Ledger) })
	d.WaitForLive(len(r.Kinds))
	for _, k := range r.Kinds {
		checkResnapshot(t, k, d.Records(), outputs[k.GVR.Resource])
		checkResnapshot(t, k, h.Events(0), outputs[k.GVR.Resource])
		e2e.Check(t, k, d.Records(), r.Ledger, r.Client, e2e.Claim{})
	}
	if output, code := d.Command("resnapshot", "nothings"); code != 1 || !strings.Contains(output, "watched resources: ") || !strings.Contains(output, "pods") {
		t.Errorf("exit code %d: %s", code, output)
	}
	lines := len(d.Records())
	d.Stop()
	d.Start()
	d.WaitForLive(len(r.Kinds))
	if n := len(d.Records()) - lines; n != 0 {
		t.Errorf("%d new events after a restart", n)
	}
}

// checkResnapshot is checkRun for one in which something was announced anew.
func checkResnapshot(t *testing.T, k e2e.Kind, records []e2e.Record, output string) {
	t.Helper()
	if checkRun(t, k, records, output) == 0 {
		t.Errorf("%s: nothing was announced anew; the command says\n%s", k.Target(), output)
	}
}

// checkRun finds the run that the command has told of: from its start to its end each
// object that exists then was announced, anew or as it changed. It returns how many
// were announced anew.
func checkRun(t *testing.T, k e2e.Kind, records []e2e.Record, output string) (again int) {
	t.Helper()
	match := regexp.MustCompile(`(?m)^` + k.Target() + `\S* +(\d+) +(\d+) +-$`).FindStringSubmatch(output)
	if match == nil {
		t.Fatalf("%s: the command says\n%s", k.Target(), output)
	}
	began, ended := false, false
	alive, announced := make(map[string]bool), make(map[string]bool)
	for _, x := range records {
		if e2e.GroupOrCore(x.Group)+"/"+x.Resource != k.Target() || ended {
			continue
		}
		ofRun := fmt.Sprint(x.Run) == match[2]
		switch {
		case x.Op == "begin" && ofRun:
			began = true
		case x.Op == "synced" && ofRun:
			ended = began
		case x.Op == "deleted":
			delete(alive, x.UID)
		case !x.Control():
			alive[x.UID], announced[x.UID] = true, announced[x.UID] || began
		}
		if ofRun && (!began || !x.Replay) {
			t.Errorf("%s: %s is out of place: %+v", k.Target(), x.ID, x)
		}
		if ofRun && x.Op == "snapshot" {
			again++
		}
	}
	if !ended || fmt.Sprint(again) != match[1] {
		t.Errorf("%s: %d objects in run %s, ended: %t; the command says\n%s", k.Target(), again, match[2], ended, output)
	}
	for uid := range alive {
		if !announced[uid] {
			t.Errorf("%s: %s was not announced in the run", k.Target(), uid)
		}
	}
	return again
}

// TestResnapshotEvery: every object is announced again once a period, while objects change and over a restart,
// to each sink by itself: one that is down does not hold up the other.
func TestResnapshotEvery(t *testing.T) {
	const objects = 60
	r := e2e.NewRig(t)
	k := e2e.ConfigMapKind()
	w := e2e.NewWriter(r.Client, k, r.Ledger, 1)
	for i := range objects {
		e2e.Must(t, w.Create(t.Context(), fmt.Sprintf("object-%d", i)))
	}
	r.Kinds = []e2e.Kind{k}
	d := e2e.NewInformd(t, e2e.Setup{
		Kubeconfig: r.Cluster.Kubeconfig(), Journal: e2e.LogJournal + e2e.LongHistory,
		Resources: "- {resource: configmaps, namespaces: [default], resnapshotEvery: 1m}",
		Sinks:     "- {name: dead, type: webhook, url: 'http://127.0.0.1:9/', allowHTTP: true}",
	})
	r.Ledger.Begin()
	d.Start()
	d.WaitForSync(1)
	end := r.Load()
	defer end()
	// What a sink was given again after the kill counts once.
	runs := func() (objects map[uint64][]e2e.Record, complete []uint64) {
		objects = make(map[uint64][]e2e.Record)
		unique, _ := e2e.Once(t, d.Records())
		for _, x := range unique {
			if x.Reannounced() {
				objects[x.Run] = append(objects[x.Run], x)
			} else if x.Op == "synced" && x.Replay && x.Run > 0 {
				complete = append(complete, x.Run)
			}
		}
		return objects, complete
	}
	wait := func(n int) {
		t.Helper()
		e2e.Eventually(t, fmt.Sprint(n, " runs"), func() bool { _, complete := runs(); return len(complete) >= n })
	}
	wait(1)
	d.Kill()
	d.Start()
	d.WaitForSync(1)
	wait(2)
	end()
	e2e.Eventually(t, "file complete", func() bool { return e2e.Complete(r.Kinds, d.Records(), r.Ledger) })
	again, whole := runs()
	for _, run := range whole {
		seen := make(map[string]bool)
		for _, x := range again[run] {
			if seen[x.UID] {
				t.Errorf("%s comes twice in run %d", x.UID, run)
			}
			seen[x.UID] = true
			var body struct {
				Metadata struct{ ResourceVersion string }
			}
			if err := json.Unmarshal(x.Data.Object, &body); err != nil || body.Metadata.ResourceVersion != fmt.Sprint(x.ResourceVersion) {
				t.Errorf("%s has the state of %s (%v)", x.ID, body.Metadata.ResourceVersion, err)
			}
		}
		for _, uid := range w.Alive {
			if !seen[string(uid)] {
				t.Errorf("%s is not in run %d", uid, run)
			}
		}
	}
	unique, _ := e2e.Once(t, d.Records())
	// Beside the repeated states, which are no new events, the stream is as ever.
	unique = slices.DeleteFunc(unique, func(x e2e.Record) bool { return x.Run > 0 && x.Replay })
	e2e.Check(t, k, unique, r.Ledger, r.Client, e2e.Claim{})
}

package e2e_test

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// reannounced reports whether a record repeats the state that came before it.
func (r record) reannounced() bool {
	return r.Op == "snapshot" && r.Replay && r.Run != 0
}

// TestResnapshot: amid changes all objects of a resource are announced anew on
// request, to every sink, and chains stay whole.
func TestResnapshot(t *testing.T) {
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
	outputs := make(map[string]string)
	for _, k := range r.kinds {
		name := k.gvr.Resource
		if k.gvr.Group != "" {
			name = k.gvr.Group + "/" + name
		}
		outputs[k.gvr.Resource] = d.must("resnapshot", name)
	}
	end()
	eventually(t, "file complete", func() bool { return complete(r.kinds, d.records(), r.ledger) })
	d.waitForLive(len(r.kinds))
	for _, k := range r.kinds {
		checkResnapshot(t, k, d.records(), outputs[k.gvr.Resource])
		checkResnapshot(t, k, h.events(0), outputs[k.gvr.Resource])
		check(t, k, d.records(), r.ledger, r.client, claim{})
	}
	if output, code := d.command("resnapshot", "nothings"); code != 1 || !strings.Contains(output, "watched resources: ") || !strings.Contains(output, "pods") {
		t.Errorf("exit code %d: %s", code, output)
	}
	lines := len(d.records())
	d.stop()
	d.start()
	d.waitForLive(len(r.kinds))
	if n := len(d.records()) - lines; n != 0 {
		t.Errorf("%d new events after a restart", n)
	}
}

// checkResnapshot is checkRun for one in which something was announced anew.
func checkResnapshot(t *testing.T, k kind, records []record, output string) {
	t.Helper()
	if checkRun(t, k, records, output) == 0 {
		t.Errorf("%s: nothing was announced anew; the command says\n%s", k.target(), output)
	}
}

// checkRun finds the run that the command has told of: from its start to its end each
// object that exists then was announced, anew or as it changed. It returns how many
// were announced anew.
func checkRun(t *testing.T, k kind, records []record, output string) (again int) {
	t.Helper()
	match := regexp.MustCompile(`(?m)^` + k.target() + `\S* +(\d+) +(\d+) +-$`).FindStringSubmatch(output)
	if match == nil {
		t.Fatalf("%s: the command says\n%s", k.target(), output)
	}
	began, ended := false, false
	alive, told := make(map[string]bool), make(map[string]bool)
	for _, x := range records {
		if groupOrCore(x.Group)+"/"+x.Resource != k.target() || ended {
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
		case !x.control():
			alive[x.UID], told[x.UID] = true, told[x.UID] || began
		}
		if ofRun && (!began || !x.Replay) {
			t.Errorf("%s: %s is out of place: %+v", k.target(), x.ID, x)
		}
		if ofRun && x.Op == "snapshot" {
			again++
		}
	}
	if !ended || fmt.Sprint(again) != match[1] {
		t.Errorf("%s: %d objects in run %s, ended: %t; the command says\n%s", k.target(), again, match[2], ended, output)
	}
	for uid := range alive {
		if !told[uid] {
			t.Errorf("%s: %s was not announced in the run", k.target(), uid)
		}
	}
	return again
}

// TestResnapshotEvery: every object is announced again once a period, while objects change and over a restart,
// to each sink by itself: one that is down does not hold up the other.
func TestResnapshotEvery(t *testing.T) {
	const objects = 60
	r := newRig(t)
	k := configMapKind()
	w := newWriter(r.client, k, r.ledger, 1)
	for i := range objects {
		if err := w.create(t.Context(), fmt.Sprintf("object-%d", i)); err != nil {
			t.Fatal(err)
		}
	}
	r.kinds = []kind{k}
	d := newInformd(t, setup{
		kubeconfig: r.cluster.Kubeconfig(), journal: logJournal + longHistory,
		resources: "- {resource: configmaps, namespaces: [default], resnapshotEvery: 1m}",
		sinks:     "- {name: dead, type: webhook, url: 'http://127.0.0.1:9/', allowHTTP: true}",
	})
	r.ledger.begin()
	d.start()
	d.waitForSync(1)
	end := r.load()
	defer end()
	// What a sink was given again after the kill counts once.
	runs := func() (objects map[uint64][]record, complete []uint64) {
		objects = make(map[uint64][]record)
		unique, _ := once(t, d.records())
		for _, x := range unique {
			if x.reannounced() {
				objects[x.Run] = append(objects[x.Run], x)
			} else if x.Op == "synced" && x.Replay && x.Run > 0 {
				complete = append(complete, x.Run)
			}
		}
		return objects, complete
	}
	wait := func(n int) {
		t.Helper()
		eventually(t, fmt.Sprint(n, " runs"), func() bool { _, complete := runs(); return len(complete) >= n })
	}
	wait(1)
	d.kill()
	d.start()
	d.waitForSync(1)
	wait(2)
	end()
	eventually(t, "file complete", func() bool { return complete(r.kinds, d.records(), r.ledger) })
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
		for _, uid := range w.alive {
			if !seen[string(uid)] {
				t.Errorf("%s is not in run %d", uid, run)
			}
		}
	}
	unique, _ := once(t, d.records())
	// Beside the repeated states, which are no new events, the stream is as ever.
	unique = slices.DeleteFunc(unique, func(x record) bool { return x.Run > 0 && x.Replay })
	check(t, k, unique, r.ledger, r.client, claim{})
}

package event_test

import (
	"flag"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/informd/informd/internal/form"
	"github.com/informd/informd/pkg/event"
)

var update = flag.Bool("update", false, "write the golden files; a difference is a breaking change of the format")

// golden compares got with testdata/<name>.
func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, got, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatalf("%v (go test ./pkg/event -update writes it)", err)
	}
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Errorf("%s (-want +got):\n%s", path, diff)
	}
}

// deployment is an event about one namespaced object.
func deployment(op event.Op) event.Event {
	const uid = "8f0ac8f3-5e2b-4a5f-9c53-0d3c5f6f1a11"
	return event.Event{
		ID: form.ObjectID(uid, 12345, 0), Op: op,
		Time:    time.Date(2026, 11, 20, 10, 0, 0, 123456789, time.FixedZone("", 3600)),
		Cluster: "prod-eu1", Target: "apps/deployments",
		Group: "apps", Version: "v1", Resource: "deployments", Kind: "Deployment",
		Namespace: "shop", Name: "web", UID: uid,
		ResourceVersion: 12345, PrevResourceVersion: 12300, Ordinal: 7,
		Data: form.CloseData(append(form.OpenData(nil), `{"kind":"Deployment","spec":{"replicas":3}}`...)),
	}
}

// samples has one event of every op, and the shapes in which an op can come.
func samples() []event.Event {
	snapshot, added := deployment(event.Snapshot), deployment(event.Added)
	for _, e := range []*event.Event{&snapshot, &added} {
		e.PrevResourceVersion, e.Ordinal = 0, 1
	}
	added.Group, added.Resource, added.Kind, added.Target = "", "namespaces", "Namespace", "core/namespaces"
	added.Namespace, added.Name = "", "shop"

	deleted := deployment(event.Deleted)
	deleted.ID = form.DeletedID(deleted.UID, 0)
	deleted.Data = form.CloseDeletedData(append(form.OpenData(nil), `{"kind":"Deployment"}`...), true)
	reconciled := deleted
	reconciled.Replay, reconciled.Data = true, form.IdentityData()

	left, entered := deployment(event.Left), deployment(event.Entered)
	left.ID = form.SelectionID(left.UID, 12345, event.Left, 12345, 0)
	entered.ID, entered.Epoch = form.SelectionID(entered.UID, 12345, event.Entered, 12400, 2), 2
	repeated, redelivered := deployment(event.Snapshot), deployment(event.Modified)
	repeated.PrevResourceVersion, repeated.Replay = repeated.ResourceVersion, true
	repeated.ID, repeated.Epoch = form.ObjectID(repeated.UID, 12345, 2), 2
	snapshot.SetRun(1795170000000)
	repeated.SetRun(1795170000123)
	redelivered.SetRun(1795170000456)

	control := event.Event{
		Time: deleted.Time, Cluster: "prod-eu1", Target: "apps/deployments@shop",
		Group: "apps", Version: "v1", Resource: "deployments", Kind: "Deployment", ResourceVersion: 20000,
	}
	begin, synced, gap := control, control, control
	begin.SetBound(event.Begin, snapshot.Run, 20000)
	synced.SetBound(event.Synced, snapshot.Run, 20000)
	gap.Op, gap.ID = event.Gap, form.GapID(control.Target, 12345, 20000, 0)
	gap.Gap = &event.GapInfo{From: 12345, To: 20000, Reason: "expired", Recovered: event.RecoveredState}
	state := control
	state.Op, state.ID, state.Data = event.State, form.StateID(control.Target, control.Time), form.StateData("forbidden", "list: \"no\"")
	trimmed := event.Event{
		ID: form.TrimmedID("bus", 101, 250), Op: event.Gap, Time: deleted.Time, Cluster: "prod-eu1", Target: "*",
		Gap: &event.GapInfo{Reason: "trimmed", Recovered: event.RecoveredState, Trimmed: 42},
	}
	return []event.Event{
		snapshot, added, deployment(event.Modified), deleted, reconciled, left, entered, begin, synced, gap, state, trimmed,
		repeated, redelivered,
	}
}

// hostile are strings that no name should be, but that may come all the same.
func hostile() []string {
	all := make([]byte, 256)
	for i := range all {
		all[i] = byte(i)
	}
	return []string{
		"", " ", "a\nb", "a\r\nce-id: forged", `"quoted"`, `back\slash`, "tab\t", "nul\x00", "del\x7f", "c1\u0085",
		"emoji 🚀", "ümläut", "\u2028line\u2029", "\ufeffbom", "\ufffd", "a\xffb", "\xed\xa0\x80surrogate", "\xf0\x9f\x9acut",
		"100%", "%41", "_", "a.b", "a_b", "*", ">", "system:node:*", "</script>&", "{}", "'", string(all),
	}
}

// boundID is the id of the beginning or the end of a snapshot, without its run.
func boundID(target string, op event.Op, rv, epoch uint64) string {
	e := event.Event{Target: target, Epoch: epoch}
	e.SetBound(op, 0, rv)
	return e.ID
}

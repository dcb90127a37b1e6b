package e2e_test

import (
	"encoding/json"
	"reflect"
	"slices"
	"testing"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic"

	"github.com/informd/informd/test/cluster"
)

// TestChangesLeadToTheObjects: a consumer has the first state of every object and then
// nothing but patches, in their order, of an informd that is killed while objects change,
// and away while they change and the API server forgets. It ends with what the API server
// has.
func TestChangesLeadToTheObjects(t *testing.T) {
	c := cluster.Start(t, cluster.Options{})
	client := dynamic.NewForConfigOrDie(fast(c.RESTConfig()))
	kinds, l := []kind{podKind(), configMapKind(), customKind("gadgets", false)}, newLedger()
	kinds[2].install(t, client)
	seed := uint64(0)
	write := func(n int) {
		t.Helper()
		seed++
		writeAll(t, client, kinds, l, n, seed)
	}
	write(20)
	l.begin()
	d := newInformd(t, setup{kubeconfig: c.Kubeconfig(), journal: logJournal + longHistory, resources: `
		- {resource: pods, changes: [patch, oldObject, changed], omit: [status.conditions]}
		- {resource: configmaps, namespaces: [default], changes: patch}
		- {group: e2e.*, resource: "gad*", changes: [changed, patch]}`})
	d.start()
	d.waitForLive(len(kinds))
	caughtUp := func() {
		t.Helper()
		eventually(t, "everything has come", func() bool { return complete(kinds, d.records(), l) })
	}
	caughtUp()

	seed++
	end := loadAll(t, client, kinds, l, seed)
	for range 4 {
		n := len(d.records())
		eventually(t, "events", func() bool { return len(d.records()) > n+50 })
		d.kill()
		d.start()
	}
	end()
	caughtUp()
	d.waitForLive(len(kinds))

	d.kill()
	write(60)
	if err := c.APIServer(0).Kill(); err != nil { // and with it what it remembers
		t.Fatal(err)
	}
	if err := c.APIServer(0).Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	write(20)
	d.start()
	d.waitForLive(len(kinds))
	write(20)
	caughtUp()

	records, _ := once(t, d.records())
	rebuilt := rebuild(t, records)
	for _, k := range kinds {
		list, err := client.Resource(k.gvr).Namespace(k.namespace).List(t.Context(), metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if len(list.Items) == 0 {
			t.Errorf("there are no %s at the end", k.gvr.Resource)
		}
		for _, o := range list.Items {
			o.SetManagedFields(nil)
			annotations := o.GetAnnotations()
			delete(annotations, lastApplied)
			o.SetAnnotations(annotations)
			if k.gvr.Resource == "pods" {
				if status, ok := o.Object["status"].(map[string]any); ok {
					delete(status, "conditions")
				}
			}
			want := normal(t, o.Object)
			if got := normal(t, rebuilt[string(o.GetUID())]); !reflect.DeepEqual(got, want) {
				t.Errorf("%s %s is rebuilt as\n%v\nwant\n%v", k.gvr.Resource, o.GetName(), got, want)
			}
		}
	}
}

// rebuild returns the objects by uid that patches make of the first states, and holds
// every event to say what has changed.
func rebuild(t *testing.T, records []record) map[string]json.RawMessage {
	t.Helper()
	objects, revisions := make(map[string]json.RawMessage), make(map[string]uint64)
	patches, replayed := 0, 0
	for _, r := range records {
		var told struct {
			Data struct {
				Old     json.RawMessage
				Changed []string
				Patch   json.RawMessage
			}
		}
		if err := json.Unmarshal([]byte(r.raw), &told); err != nil {
			t.Fatal(err)
		}
		switch {
		case r.control():
			continue
		case r.Op != "modified":
			if told.Data.Patch != nil || told.Data.Old != nil || told.Data.Changed != nil {
				t.Errorf("%s %s says what has changed: %s", r.Op, r.ID, r.raw)
			}
			objects[r.UID] = r.Data.Object
		case told.Data.Patch == nil || revisions[r.UID] != r.PrevResourceVersion:
			t.Errorf("%s, after revision %d, has no patch: %s", r.ID, revisions[r.UID], r.raw)
		default:
			if told.Data.Old != nil && !reflect.DeepEqual(normal(t, told.Data.Old), normal(t, objects[r.UID])) {
				t.Errorf("%s has another object before than its event:\n%s\n%s", r.ID, told.Data.Old, objects[r.UID])
			}
			patch, err := jsonpatch.DecodePatch(told.Data.Patch)
			if err == nil {
				objects[r.UID], err = patch.Apply(objects[r.UID])
			}
			if err != nil {
				t.Fatalf("%s: %v: %s", r.ID, err, r.raw)
			}
			if !reflect.DeepEqual(normal(t, objects[r.UID]), normal(t, r.Data.Object)) {
				t.Errorf("the patch of %s leads to\n%s\nand not to\n%s", r.ID, objects[r.UID], r.Data.Object)
			}
			patches++
			if r.Replay {
				replayed++
			}
			if changed := told.Data.Changed; changed != nil && slices.Contains(changed, "metadata.resourceVersion") {
				t.Errorf("%s: changed are %q", r.ID, changed)
			}
		}
		revisions[r.UID] = r.ResourceVersion
		if r.Op == "deleted" {
			delete(objects, r.UID)
		}
	}
	t.Logf("%d patches, %d of them found later", patches, replayed)
	if patches < 100 || replayed == 0 {
		t.Errorf("%d patches, %d of them found later", patches, replayed)
	}
	return objects
}

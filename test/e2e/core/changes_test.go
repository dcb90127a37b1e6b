package core_test

import (
	"encoding/json"
	"reflect"
	"slices"
	"testing"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic"

	"github.com/informd/informd/test/cluster"
	"github.com/informd/informd/test/e2e"
)

// TestChangesLeadToTheObjects: a consumer has the first state of every object and then
// nothing but patches, in their order, of an informd that is killed while objects change,
// and away while they change and the API server forgets. It ends with what the API server
// has.
func TestChangesLeadToTheObjects(t *testing.T) {
	c := cluster.Start(t, cluster.Options{})
	client := dynamic.NewForConfigOrDie(e2e.Fast(c.RESTConfig()))
	kinds, l := []e2e.Kind{e2e.PodKind(), e2e.ConfigMapKind(), e2e.CustomKind("gadgets", false)}, e2e.NewLedger()
	kinds[2].Install(t, client)
	seed := uint64(0)
	write := func(n int) {
		t.Helper()
		seed++
		e2e.WriteAll(t, client, kinds, l, n, seed)
	}
	write(20)
	l.Begin()
	d := e2e.NewInformd(t, e2e.Setup{Kubeconfig: c.Kubeconfig(), Journal: e2e.LogJournal + e2e.LongHistory, Resources: `
		- {resource: pods, changes: [patch, oldObject, changed], omit: [status.conditions]}
		- {resource: configmaps, namespaces: [default], changes: patch}
		- {group: e2e.*, resource: "gad*", changes: [changed, patch]}`})
	d.Start()
	d.WaitForLive(len(kinds))
	caughtUp := func() {
		t.Helper()
		e2e.Eventually(t, "everything has come", func() bool { return e2e.Complete(kinds, d.Records(), l) })
	}
	caughtUp()

	seed++
	end := e2e.LoadAll(t, client, kinds, l, seed)
	for range 4 {
		n := len(d.Records())
		e2e.Eventually(t, "events", func() bool { return len(d.Records()) > n+50 })
		d.Kill()
		d.Start()
	}
	end()
	caughtUp()
	d.WaitForLive(len(kinds))

	d.Kill()
	write(60)
	if err := c.APIServer(0).Kill(); err != nil { // and with it what it remembers
		t.Fatal(err)
	}
	e2e.Must(t, c.APIServer(0).Start(t.Context()))
	write(20)
	d.Start()
	d.WaitForLive(len(kinds))
	write(20)
	caughtUp()

	records, _ := e2e.Once(t, d.Records())
	rebuilt := rebuild(t, records)
	for _, k := range kinds {
		list, err := client.Resource(k.GVR).Namespace(k.Namespace).List(t.Context(), metav1.ListOptions{})
		e2e.Must(t, err)
		if len(list.Items) == 0 {
			t.Errorf("there are no %s at the end", k.GVR.Resource)
		}
		for _, o := range list.Items {
			o.SetManagedFields(nil)
			annotations := o.GetAnnotations()
			delete(annotations, e2e.LastApplied)
			o.SetAnnotations(annotations)
			if k.GVR.Resource == "pods" {
				if status, ok := o.Object["status"].(map[string]any); ok {
					delete(status, "conditions")
				}
			}
			want := e2e.Normal(t, o.Object)
			if got := e2e.Normal(t, rebuilt[string(o.GetUID())]); !reflect.DeepEqual(got, want) {
				t.Errorf("%s %s is rebuilt as\n%v\nwant\n%v", k.GVR.Resource, o.GetName(), got, want)
			}
		}
	}
}

// rebuild returns the objects by uid that patches make of the first states, and holds
// every event to say what has changed.
func rebuild(t *testing.T, records []e2e.Record) map[string]json.RawMessage {
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
		e2e.Must(t, json.Unmarshal([]byte(r.Raw), &told))
		switch {
		case r.Control():
			continue
		case r.Op != "modified":
			if told.Data.Patch != nil || told.Data.Old != nil || told.Data.Changed != nil {
				t.Errorf("%s %s says what has changed: %s", r.Op, r.ID, r.Raw)
			}
			objects[r.UID] = r.Data.Object
		case told.Data.Patch == nil || revisions[r.UID] != r.PrevResourceVersion:
			t.Errorf("%s, after revision %d, has no patch: %s", r.ID, revisions[r.UID], r.Raw)
		default:
			if told.Data.Old != nil && !reflect.DeepEqual(e2e.Normal(t, told.Data.Old), e2e.Normal(t, objects[r.UID])) {
				t.Errorf("%s has another object before than its event:\n%s\n%s", r.ID, told.Data.Old, objects[r.UID])
			}
			patch, err := jsonpatch.DecodePatch(told.Data.Patch)
			if err == nil {
				objects[r.UID], err = patch.Apply(objects[r.UID])
			}
			if err != nil {
				t.Fatalf("%s: %v: %s", r.ID, err, r.Raw)
			}
			if !reflect.DeepEqual(e2e.Normal(t, objects[r.UID]), e2e.Normal(t, r.Data.Object)) {
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

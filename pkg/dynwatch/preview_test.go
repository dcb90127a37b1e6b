package dynwatch_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/informd/informd/pkg/dynwatch"
	"github.com/informd/informd/pkg/event"
)

func previewOptions() dynwatch.Options {
	return dynwatch.Options{Cluster: "test", RedactionKey: []byte(strings.Repeat("k", 32))}
}

// thing is a change of an object of things, in the version that the fake API serves.
func thing(op event.Op, object, old string) dynwatch.Change {
	c := dynwatch.Change{Group: "example.com", Version: "v1", Resource: "things", Kind: "Thing", Op: op, Object: []byte(object)}
	if old != "" {
		c.Old = []byte(old)
	}
	return c
}

// TestPreviewIsWhatIsWatched lets an object live, and compares every event with the
// preview of the same change.
func TestPreviewIsWhatIsWatched(t *testing.T) {
	selecting := things()
	selecting.LabelSelector = "on=yes"
	metadata := things()
	metadata.Mode = dynwatch.Metadata
	filtered := things()
	filtered.Namespaces, filtered.ExcludeNamespaces = []string{"a*"}, []string{"ab"}
	changing := things()
	changing.Changes = dynwatch.Changes{Changed: true, Patch: true, OldObject: true}
	one := things()
	one.Namespaces = []string{"a"}
	for name, wanted := range map[string]dynwatch.Resource{
		"all": things(), "selecting": selecting, "metadata": metadata, "filtered": filtered, "namespaced": one, "changing": changing,
	} {
		t.Run(name, func(t *testing.T) {
			api := newFakeAPI(t)
			r, n := liveFrom(t, api, wanted)
			for _, label := range []string{"yes", "no", "yes"} {
				api.put("a", "x", label)
				r.caughtUp()
			}
			api.del("a", "x")
			r.caughtUp()
			old := ""
			events := r.log.all()[n:]
			if len(events) < 4 {
				t.Fatalf("%d events, want 4 or more: %q", len(events), lines(events))
			}
			for _, want := range events {
				op := want.Op
				if op == event.Left || op == event.Entered {
					op = event.Modified
				}
				got, err := dynwatch.Preview(t.Context(), previewOptions(), []dynwatch.Resource{wanted}, thing(op, string(want.Object()), old))
				must(t, err)
				// How many events an object had only the journal knows.
				ignored := cmpopts.IgnoreFields(event.Event{}, "Time", "Ordinal")
				if diff := cmp.Diff([]event.Event{want}, got.Events, ignored); diff != "" || got.Target != want.Target {
					t.Errorf("%s: target %q (-watched +previewed):\n%s", want.Op, got.Target, diff)
				}
				old = string(want.Object())
			}
		})
	}
}

// withLabel is an object with what selectors look at.
func withLabel(namespace, label string) string {
	return `{"metadata":{"name":"x","namespace":"` + namespace + `","uid":"u","resourceVersion":"7","labels":{"on":"` + label + `"}}}`
}

func TestPreviewSaysWhy(t *testing.T) {
	type resources = []dynwatch.Resource
	of := func(change func(r *dynwatch.Resource)) dynwatch.Resource {
		r := things()
		change(&r)
		return r
	}
	wild := dynwatch.Resource{Group: "*.com", Resource: "*"}
	const knownOnly = "that the API server can list and watch example.com/things"
	for name, test := range map[string]struct {
		wanted  resources
		object  string
		entry   int
		refusal string // of the first entry
		assumed string // of the one that takes it
	}{
		"another resource":    {resources{{Resource: "pods"}}, withLabel("a", ""), -1, "the entry is for core/pods, and the object is of example.com/things", ""},
		"wildcard":            {resources{{Resource: "pods"}, wild}, withLabel("a", ""), 1, "the entry is for core/pods, and the object is of example.com/things", knownOnly},
		"an entry of its own": {resources{wild, things()}, withLabel("a", ""), 1, "example.com/things has its own entry", ""},
		"an earlier wildcard": {resources{wild, {Group: "example.*", Resource: "*"}}, withLabel("a", ""), 0, "", knownOnly},
		"wildcard of others":  {resources{{Group: "*.org", Resource: "*"}}, withLabel("a", ""), -1, `group "*.org" of the entry does not match "example.com"`, ""},
		"excluded": {
			resources{{Group: "*", Resource: "*", ExcludeResources: []string{"things"}}}, withLabel("a", ""), -1, "excludeResources excludes example.com/things", "",
		},
		"namespace": {
			resources{of(func(r *dynwatch.Resource) { r.Namespaces = []string{"b"} })}, withLabel("a", ""), -1, "namespace a does not match (namespaces: b)", "",
		},
		"excluded namespace": {
			resources{of(func(r *dynwatch.Resource) { r.ExcludeNamespaces = []string{"a"} })}, withLabel("a", ""), -1, "namespace a does not match (namespaces: all, except a)", "",
		},
		"no namespace": {
			resources{of(func(r *dynwatch.Resource) { r.Namespaces = []string{"b"} })}, withLabel("", ""), -1, "the entry is for namespaced objects, and the object has no metadata.namespace", "",
		},
		"label": {
			resources{of(func(r *dynwatch.Resource) { r.LabelSelector = "on=yes" })}, withLabel("a", "no"), -1, `the object does not match labelSelector "on=yes"`, "",
		},
		"field": {
			resources{of(func(r *dynwatch.Resource) { r.FieldSelector = "metadata.name!=x" })}, withLabel("a", ""), -1, `the object does not match fieldSelector "metadata.name!=x"`, "",
		},
		"field that only the server knows": {
			resources{of(func(r *dynwatch.Resource) { r.FieldSelector = "status.phase=Running,metadata.name=x" })},
			withLabel("a", ""), 0, "",
			"that the object matches status.phase of fieldSelector, which only the API server evaluates",
		},
		"labels of the namespace": {
			resources{of(func(r *dynwatch.Resource) { r.NamespaceSelector = "tier=prod" })},
			withLabel("a", ""), 0, "",
			`that the Namespace a has labels that match namespaceSelector "tier=prod"`,
		},
		"version": {
			resources{of(func(r *dynwatch.Resource) { r.Version = "v2" })},
			withLabel("a", ""), 0, "",
			"the object is of version v1; informd would watch it in version v2, as the API server converts it",
		},
	} {
		t.Run(name, func(t *testing.T) {
			p, err := dynwatch.Preview(t.Context(), previewOptions(), test.wanted, thing(event.Added, test.object, ""))
			must(t, err)
			if p.Entry != test.entry || p.Entries[0].Refusal != test.refusal {
				t.Errorf("entry %d, want %d; refusal %q, want %q", p.Entry, test.entry, p.Entries[0].Refusal, test.refusal)
			}
			if (p.Entry >= 0) != (len(p.Events) == 1) {
				t.Errorf("entry %d, and %d events", p.Entry, len(p.Events))
			}
			if p.Entry >= 0 {
				if got := strings.Join(p.Entries[p.Entry].Assumed, "; "); got != test.assumed {
					t.Errorf("assumed %q, want %q", got, test.assumed)
				}
			}
		})
	}
}

// TestPreviewOfBadObjects: what would be a dead letter is an error.
func TestPreviewOfBadObjects(t *testing.T) {
	for name, raw := range map[string]string{
		"no JSON": "{", "no name": `{"metadata":{"uid":"u","resourceVersion":"7"}}`, "no revision": `{"metadata":{"name":"x","uid":"u"}}`,
		"twice": `{"metadata":{"name":"x","name":"y","uid":"u","resourceVersion":"7"}}`, "no object": "[]",
	} {
		if p, err := dynwatch.Preview(t.Context(), previewOptions(), []dynwatch.Resource{things()}, thing(event.Added, raw, "")); err == nil {
			t.Errorf("%s: no error, %d events", name, len(p.Events))
		}
	}
}

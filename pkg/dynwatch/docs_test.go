package dynwatch_test

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"

	"github.com/informd/informd/pkg/dynwatch"
	"github.com/informd/informd/pkg/event"
)

// TestDocsMembers: what docs/shaping.md shows of fieldManager and ownerChain is what comes of them,
// and what a preview shows of them but for the owner's owner.
func TestDocsMembers(t *testing.T) {
	text, err := os.ReadFile("../../docs/shaping.md")
	must(t, err)
	shown := regexp.MustCompile("(?s)```json pod\n(.*?)```.*?```yaml\n(.*?)```.*?```json data\n(.*?)```").FindStringSubmatch(string(text))
	if shown == nil {
		t.Fatal("no example")
	}
	var c struct {
		Resources []struct {
			Keep         []string
			FieldManager bool `yaml:"fieldManager"`
			OwnerChain   bool `yaml:"ownerChain"`
		}
	}
	if err := yaml.Unmarshal([]byte(shown[2]), &c); err != nil || len(c.Resources) != 1 {
		t.Fatalf("%v in:\n%s", err, shown[2])
	}
	wanted := things()
	wanted.Keep, wanted.FieldManager, wanted.OwnerChain = c.Resources[0].Keep, c.Resources[0].FieldManager, c.Resources[0].OwnerChain
	want := strings.NewReplacer(`"apiVersion":"v1"`, `"apiVersion":"example.com/v1"`, `"kind":"Pod"`, `"kind":"Thing"`).Replace(strings.TrimSpace(shown[3]))

	api := newFakeAPI(t)
	owners := api.own()
	owners.group, owners.namespace, owners.kinds = "apps", "shop", map[string]string{"replicasets": "ReplicaSet", "deployments": "Deployment"}
	owners.put("deployments", "web", "5d4f8c7b-1111-4222-8333-444444444444", "")
	owners.put("replicasets", "web-1", "9c2f77a8-1111-4222-8333-444444444444", "Deployment/web/5d4f8c7b-1111-4222-8333-444444444444")
	line := strings.ReplaceAll(shown[1], "\n", " ") // as frames are
	api.do(func() { api.mangle = func(string) string { return line } })
	api.put("shop", "web-1-x2x4z", "")
	r := start(t, api, wanted)
	if e := r.lastOf("web-1-x2x4z", 1); string(e.Data) != want {
		t.Errorf("the docs show\n%s\nbut it is\n%s", want, e.Data)
	}

	preview := previewed(t, wanted, thing(event.Added, shown[1], ""))
	short := regexp.MustCompile(`\},\{"kind":"Deployment"[^}]*\}`).ReplaceAllString(want, `,"complete":false}`)
	if string(preview.Data) != short {
		t.Errorf("the preview is\n%s\nwant\n%s", preview.Data, short)
	}
	preview = previewed(t, wanted, thing(event.Deleted, shown[1], ""))
	if preview.Member("fieldManager") != nil || preview.Member("ownerChain") == nil {
		t.Errorf("the preview of a deletion is %s", preview.Data)
	}
}

// previewed is the only event of a preview.
func previewed(t *testing.T, wanted dynwatch.Resource, c dynwatch.Change) event.Event {
	t.Helper()
	p, err := dynwatch.Preview(t.Context(), previewOptions(), []dynwatch.Resource{wanted}, c)
	if err != nil || len(p.Events) != 1 {
		t.Fatalf("%v, preview %+v", err, p)
	}
	return p.Events[0]
}

// TestDocsOfChanges: what docs/shaping.md shows of what changed is what is told of the
// change that it describes.
func TestDocsOfChanges(t *testing.T) {
	text, err := os.ReadFile("../../docs/shaping.md")
	must(t, err)
	find := func(pattern string) string {
		t.Helper()
		found := regexp.MustCompile("(?s)" + pattern).FindSubmatch(text)
		if found == nil {
			t.Fatalf("there is no %s", pattern)
		}
		return string(found[1])
	}
	before := find("```json object\n(.*?)```")
	after := before
	for _, edit := range []struct{ from, to string }{
		{`"1042"`, `"1043"`},
		{`"interval": 30`, `"interval": 60`},
		{`, {"name": "bob", "token": "t-2"}`, ``},
		{`"labels": {"site": "north"},`, ``},
	} {
		if !strings.Contains(after, edit.from) {
			t.Fatalf("the object has no %s", edit.from)
		}
		after = strings.Replace(after, edit.from, edit.to, 1)
	}
	var c struct {
		Resources []struct {
			Group, Resource       string
			Keep, Redact, Changes []string
		}
	}
	must(t, yaml.Unmarshal([]byte(find("## What changed\n.*?```yaml\n(.*?)```")), &c))
	r := c.Resources[0]
	wanted := dynwatch.Resource{Group: r.Group, Resource: r.Resource, Keep: r.Keep, Redact: r.Redact, Changes: dynwatch.Changes{Changed: true, Patch: true, OldObject: true}}
	change := dynwatch.Change{
		Group: r.Group, Version: "v1", Resource: r.Resource, Kind: "Sensor",
		Op: event.Modified, Object: []byte(after), Old: []byte(before),
	}
	// The key is that of the other examples.
	p, err := dynwatch.Preview(t.Context(), dynwatch.Options{Cluster: "docs", RedactionKey: []byte("an example's key, known to everybody")}, []dynwatch.Resource{wanted}, change)
	must(t, err)
	want := strings.TrimSpace(find("## What changed\n.*?```jsonl\n(.*?)```"))
	if got := string(p.Events[0].Data); got != want || strings.Join(r.Changes, " ") != "oldObject changed patch" {
		t.Errorf("changes %q: the docs show\n%s\nbut it is\n%s", r.Changes, want, got)
	}
}

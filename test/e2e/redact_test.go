package e2e_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"k8s.io/client-go/dynamic"

	"github.com/informd/informd/test/cluster"
)

// Values of a custom resource that no output may show: one at a path, one in the midst
// of a text, and one that is cut out.
const (
	pathCanary    = "canary-at-a-path"
	patternCanary = "AKIACANARYCANARY"
	omittedCanary = "canary-cut-out"
)

// redactedRules name the canaries without holding them.
const redactedRules = `- group: e2e.example.com
  resource: vaults
  omit: [spec.scratch]
  redact: ["spec.users[].token", "/AKIA[A-Z]{12}/"]`

func vaultKind() kind {
	k := customKind("vaults", false)
	k.fields = func(n int) map[string]any {
		return map[string]any{"spec": map[string]any{
			"n": int64(n), "scratch": omittedCanary, "note": "the key is " + patternCanary + ", keep it",
			"users": []any{map[string]any{"name": "ann", "token": pathCanary}, map[string]any{"token": map[string]any{"value": pathCanary}}},
		}}
	}
	k.manifest = fmt.Sprintf(`{"spec":{"users":[{"token":"%s"}],"note":"%s","scratch":"%s"}}`, pathCanary, patternCanary, omittedCanary)
	return k
}

// malformVaults breaks the frames of two objects.
func malformVaults(line []byte) []byte {
	text := string(line)
	switch {
	case strings.Contains(text, `"name":"broken-json"`):
		text = strings.Replace(text, `"token":"`+pathCanary+`"`, `"token":`+pathCanary, 1)
	case strings.Contains(text, `"name":"broken-uid"`):
		text = strings.ReplaceAll(text, `"uid":`, `"uix":`)
	}
	return []byte(text)
}

// TestRedactedValuesNeverShow: the changes of an object come out, and what its entry
// redacts nowhere, as with Secrets. What an entry omits is in no event and no journal.
func TestRedactedValuesNeverShow(t *testing.T) {
	t.Setenv("INFORMD_LOG_LEVEL", "debug")
	c := cluster.Start(t, cluster.Options{})
	client := dynamic.NewForConfigOrDie(fast(c.RESTConfig()))
	vaults := vaultKind()
	vaults.install(t, client)
	p := startProxy(t, c.RESTConfig())
	p.set(func() { p.mangle = malformVaults })
	w := newWriter(client, vaults, newLedger(), 1)
	for _, name := range []string{"existed", "refused"} {
		if err := w.create(t.Context(), name); err != nil {
			t.Fatal(err)
		}
	}
	w.ledger.begin()
	h := startHook(t)
	h.set(func(r record) int {
		if r.Name == "refused" {
			return http.StatusBadRequest
		}
		return 0
	})
	d := newInformd(t, setup{
		kubeconfig: p.kubeconfig, resources: redactedRules, journal: logJournal,
		sinks: "- {name: screen, type: stdout, format: pretty}\n" + h.sink(),
	})
	d.start()
	d.waitForSync(1)
	eventually(t, "a watch", func() (begun bool) {
		p.set(func() { begun = p.watches["vaults"] > 0 })
		return begun
	})
	p.cutNow() // a watch that ends so soon is a line in the log at debug level
	if err := w.update(t.Context(), "existed"); err != nil {
		t.Fatal(err)
	}
	if err := w.delete(t.Context(), "existed", w.alive["existed"]); err != nil {
		t.Fatal(err)
	}
	broken := newWriter(client, vaults, newLedger(), 2)
	for _, name := range []string{"broken-json", "broken-uid"} {
		if err := broken.create(t.Context(), name); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.create(t.Context(), "last"); err != nil {
		t.Fatal(err)
	}
	eventually(t, "all events", func() bool {
		return complete([]kind{vaults}, d.records(), w.ledger) && strings.Contains(d.stdout.String(), "default/last")
	})
	var letters string
	eventually(t, "a dead letter and the last event at the webhook", func() bool {
		letters = readLetters(t, d, "hook")
		return strings.Contains(letters, `"refused"`) && strings.Contains(received(h), `"name":"last"`)
	})
	checkVaults(t, d.records())
	source := readLetters(t, d, "source")
	checkSecretLetters(t, source)
	values := []string{pathCanary, patternCanary, omittedCanary}
	for place, text := range map[string]string{"the letters of the webhook": letters, "the letters of the source": source, "the webhook": received(h)} {
		for _, value := range values {
			if text == "" || strings.Contains(text, value) {
				t.Errorf("%s: shows %s, or nothing", place, value)
			}
		}
	}
	d.checkShowsNone(values)
	d.checkJournalOnDisk(`"token":"hmac-sha256:`)
}

func received(h *hook) string {
	var b strings.Builder
	for _, r := range h.events(0) {
		b.Write(r.Data.Object)
	}
	return b.String()
}

// checkVaults: the events of an object have the same hashes, its deletion included.
func checkVaults(t *testing.T, records []record) {
	t.Helper()
	var hashes []string
	for _, r := range records {
		if r.Name != "existed" {
			continue
		}
		var o struct {
			Spec struct {
				Note    string
				Scratch *string
				Users   []struct{ Token string }
			}
		}
		if err := json.Unmarshal(r.Data.Object, &o); err != nil || o.Spec.Scratch != nil || len(o.Spec.Users) != 2 {
			t.Fatalf("%v: %s", err, r.Data.Object)
		}
		before, behind := strings.HasPrefix(o.Spec.Note, "the key is hmac-sha256:"), strings.HasSuffix(o.Spec.Note, ", keep it")
		if !before || !behind {
			t.Errorf("note %q", o.Spec.Note)
		}
		hashes = append(hashes, o.Spec.Users[0].Token+o.Spec.Users[1].Token+o.Spec.Note)
	}
	if len(hashes) != 3 || hashes[0] != hashes[1] || hashes[1] != hashes[2] || strings.Count(hashes[0], "hmac-sha256:") != 3 {
		t.Errorf("hashes %q: want three that are equal", hashes)
	}
}

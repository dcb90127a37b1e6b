package watching_test

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"github.com/informd/informd/test/cluster"
	"github.com/informd/informd/test/e2e"
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

func vaultKind() e2e.Kind {
	k := e2e.CustomKind("vaults", false)
	k.Fields = func(n int) map[string]any {
		return map[string]any{"spec": map[string]any{
			"n": int64(n), "scratch": omittedCanary, "note": "the key is " + patternCanary + ", keep it",
			"users": []any{map[string]any{"name": "ann", "token": pathCanary}, map[string]any{"token": map[string]any{"value": pathCanary}}},
		}}
	}
	k.Manifest = fmt.Sprintf(`{"spec":{"users":[{"token":"%s"}],"note":"%s","scratch":"%s"}}`, pathCanary, patternCanary, omittedCanary)
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

// TestHiddenValuesNeverShow: the changes of a Secret, and of an object of which an entry redacts values, come out. The
// values do nowhere, not even when informd complains about them. What an entry omits is in no event and no journal.
func TestHiddenValuesNeverShow(t *testing.T) {
	t.Setenv("INFORMD_LOG_LEVEL", "debug")
	c := cluster.Start(t, cluster.Options{})
	client := dynamic.NewForConfigOrDie(e2e.Fast(c.RESTConfig()))
	kinds := []e2e.Kind{secretKind(), vaultKind()}
	kinds[1].Install(t, client)
	p := e2e.StartProxy(t, c.RESTConfig())
	p.Set(func() { p.Mangle = func(line []byte) []byte { return malformVaults(mangleSecrets(line)) } })
	l, broken := e2e.NewLedger(), e2e.NewLedger()
	secrets, vaults := e2e.NewWriter(client, kinds[0], l, 1), e2e.NewWriter(client, kinds[1], l, 1)
	e2e.Must(t, errors.Join(secrets.Create(t.Context(), "existed"), vaults.Create(t.Context(), "existed"), vaults.Create(t.Context(), "refused")))
	l.Begin()
	h := e2e.StartHook(t)
	h.Set(func(r e2e.Record) int {
		if r.Name == "refused" {
			return http.StatusBadRequest
		}
		return 0
	})
	d := e2e.NewInformd(t, e2e.Setup{
		Kubeconfig: p.Kubeconfig, Resources: "- {resource: secrets}\n" + redactedRules, Journal: e2e.LogJournal,
		Sinks: "- {name: screen, type: stdout, format: pretty}\n" + h.Sink(),
	})
	d.Start()
	d.WaitForSync(len(kinds))
	e2e.Eventually(t, "watches", func() (begun bool) {
		p.Set(func() { begun = p.Watches["vaults"] > 0 && p.Watches["secrets"] > 0 })
		return begun
	})
	p.CutNow() // a watch that ends so soon is a line in the log at debug level
	changeSecrets(t, secrets)
	e2e.Must(t, vaults.Update(t.Context(), "existed"))
	e2e.Must(t, vaults.Delete(t.Context(), "existed", vaults.Alive["existed"]))
	for name := range malformedSecrets {
		e2e.Must(t, e2e.NewWriter(client, kinds[0], broken, 2).Create(t.Context(), name))
	}
	for _, name := range []string{"broken-json", "broken-uid"} {
		e2e.Must(t, e2e.NewWriter(client, kinds[1], broken, 2).Create(t.Context(), name))
	}
	e2e.Must(t, errors.Join(secrets.Create(t.Context(), "last"), vaults.Create(t.Context(), "last")))
	e2e.Eventually(t, "all events", func() bool {
		return e2e.Complete(kinds, d.Records(), l) && strings.Count(d.Stdout.String(), "default/last") == len(kinds)
	})
	var letters string
	e2e.Eventually(t, "a dead letter and the last events at the webhook", func() bool {
		letters = e2e.ReadLetters(t, d, "hook")
		return strings.Contains(letters, `"refused"`) && strings.Count(received(h), `"name":"last"`) == len(kinds)
	})
	d.WaitForLive(len(kinds))
	checkHashes(t, d.Records())
	checkStrangeData(t, d.Records())
	checkVaults(t, d.Records())
	source := e2e.ReadLetters(t, d, "source")
	checkSecretLetters(t, source, len(kinds))
	values := append(secretCanaries(t), pathCanary, patternCanary, omittedCanary)
	for place, text := range map[string]string{"the letters of the webhook": letters, "the letters of the source": source, "the webhook": received(h)} {
		for _, value := range values {
			if text == "" || strings.Contains(text, value) {
				t.Errorf("%s: shows %s, or nothing", place, value)
			}
		}
	}
	checkShowsNone(d, values)
	checkJournalOnDisk(d, `"token":"hmac-sha256:`)
	checkJournalOnDisk(d, `"password":"hmac-sha256:`)
}

func received(h *e2e.Hook) string {
	var b strings.Builder
	for _, r := range h.Events(0) {
		b.Write(r.Data.Object)
	}
	return b.String()
}

// checkVaults: the events of an object have the same hashes, its deletion included.
func checkVaults(t *testing.T, records []e2e.Record) {
	t.Helper()
	var hashes []string
	for _, r := range records {
		if r.Name != "existed" || r.Resource != "vaults" {
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

func secretKind() e2e.Kind {
	return e2e.Kind{
		GVR: schema.GroupVersionResource{Version: "v1", Resource: "secrets"}, Kind: "Secret", Namespace: "default",
		Fields:   func(int) map[string]any { return map[string]any{"data": map[string]any{"password": e2e.Canary}} },
		Patch:    func(n int) string { return fmt.Sprintf(`{"metadata":{"labels":{"n":"%d"}}}`, n) },
		Manifest: fmt.Sprintf(`{"apiVersion":"v1","kind":"Secret","stringData":{"password":"canary-value"},"data":{"password":"%s"}}`, e2e.Canary),
	}
}

// malformedSecrets: what the proxy does to the frame of a Secret of that name. The
// first two cannot be passed on; the third comes out, with its data as one hash.
var malformedSecrets = map[string]*strings.Replacer{ //nolint:gochecknoglobals // a constant table
	"broken-json":  strings.NewReplacer(`"password":"`+e2e.Canary+`"`, `"password":`+e2e.Canary),
	"broken-uid":   strings.NewReplacer(`"uid":`, `"uix":`),
	"strange-data": strings.NewReplacer(`"password":"`+e2e.Canary+`"`, `"password":["`+e2e.Canary+`"]`),
}

// checkJournalOnDisk makes sure that the journal's files would show a value: they
// show the hash of it.
func checkJournalOnDisk(d *e2e.Informd, hash string) {
	d.T.Helper()
	shown := false
	err := filepath.WalkDir(d.JournalDir(), func(path string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() {
			return err
		}
		b, err := os.ReadFile(path)
		shown = shown || strings.Contains(string(b), hash)
		return err
	})
	if err != nil || !shown {
		d.T.Errorf("no file below %s has the hash of a value, so that nothing is proven: %v", d.JournalDir(), err)
	}
}

func mangleSecrets(line []byte) []byte {
	for name, replacer := range malformedSecrets {
		if strings.Contains(string(line), `"name":"`+name+`"`) {
			return []byte(replacer.Replace(string(line)))
		}
	}
	return line
}

// changeSecrets gives the Secret "live" a label, then another value, and deletes
// what existed before.
func changeSecrets(t *testing.T, w *e2e.Writer) {
	t.Helper()
	e2e.Must(t, w.Create(t.Context(), "live"))
	e2e.Must(t, w.Update(t.Context(), "live"))
	w.Kind.Patch = func(int) string { return fmt.Sprintf(`{"data":{"password":"%s"}}`, e2e.OtherCanary) }
	e2e.Must(t, w.Update(t.Context(), "live"))
	e2e.Must(t, w.Delete(t.Context(), "existed", w.Alive["existed"]))
}

func checkHashes(t *testing.T, records []e2e.Record) {
	t.Helper()
	var hashes []string
	for _, r := range records {
		if r.Name == "live" {
			var o struct{ Data struct{ Password string } }
			e2e.Must(t, json.Unmarshal(r.Data.Object, &o))
			hashes = append(hashes, o.Data.Password)
		}
	}
	if len(hashes) != 3 || !strings.HasPrefix(hashes[0], "hmac-sha256:") || hashes[0] != hashes[1] || hashes[1] == hashes[2] {
		t.Errorf("hashes %q: want the second to equal the first, and the third not", hashes)
	}
}

func checkStrangeData(t *testing.T, records []e2e.Record) {
	t.Helper()
	i := slices.IndexFunc(records, func(r e2e.Record) bool { return r.Name == "strange-data" })
	if i < 0 || !strings.Contains(string(records[i].Data.Object), `"password":"hmac-sha256:`) {
		t.Error("a value of a Secret that is no text did not come out as its hash")
	}
}

// checkSecretLetters: the malformed objects of so many kinds are reported, without their bytes.
func checkSecretLetters(t *testing.T, letters string, kinds int) {
	t.Helper()
	for _, name := range []string{"broken-json", "broken-uid"} {
		if strings.Count(letters, `"key":"default/`+name+` `) != kinds {
			t.Errorf("not a dead letter of each kind names %s: %s", name, letters)
		}
	}
	for line := range strings.Lines(letters) {
		var letter struct{ Raw []byte }
		if err := json.Unmarshal([]byte(line), &letter); err != nil || letter.Raw != nil {
			t.Errorf("dead letter of a Secret: %v, raw %q", err, letter.Raw)
		}
	}
}

// secretCanaries are the values of the Secrets, as the API holds them and plain.
func secretCanaries(t *testing.T) (values []string) {
	t.Helper()
	for _, value := range []string{e2e.Canary, e2e.OtherCanary} {
		plain, err := base64.StdEncoding.DecodeString(value)
		e2e.Must(t, err)
		values = append(values, value, string(plain))
	}
	return values
}

// checkShowsNone looks for values in all that informd has put out.
func checkShowsNone(d *e2e.Informd, values []string) {
	d.T.Helper()
	places := map[string]string{"stdout": d.Stdout.String(), "the log": d.Stderr.String()}
	for _, path := range []string{"/status", "/metrics"} {
		body, _, err := d.Get(path)
		e2e.Must(d.T, err)
		places[path] = string(body)
	}
	err := filepath.WalkDir(d.Dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() {
			return err
		}
		b, err := os.ReadFile(path)
		if len(b) > 0 {
			places[path] = string(b)
		}
		return err
	})
	e2e.Must(d.T, err)
	for place, text := range places {
		if text == "" {
			d.T.Errorf("%s is empty, so that nothing is proven", place)
		}
		for _, value := range values {
			if strings.Contains(text, value) {
				d.T.Errorf("%s shows the value %s", place, value)
			}
		}
	}
	if log := d.Stderr.String(); !strings.Contains(log, "level=DEBUG") {
		d.T.Errorf("the log is not at debug level: %s", log)
	}
}

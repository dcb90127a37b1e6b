package e2e_test

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"github.com/informd/informd/test/cluster"
)

// Values of Secrets, as the API holds them.
const (
	canary      = "Y2FuYXJ5LXZhbHVl"
	otherCanary = "c2Vjb25kLWNhbmFyeQ=="
)

func secretKind() kind {
	return kind{
		gvr: schema.GroupVersionResource{Version: "v1", Resource: "secrets"}, kind: "Secret", namespace: "default",
		fields:   func(int) map[string]any { return map[string]any{"data": map[string]any{"password": canary}} },
		patch:    func(n int) string { return fmt.Sprintf(`{"metadata":{"labels":{"n":"%d"}}}`, n) },
		manifest: fmt.Sprintf(`{"apiVersion":"v1","kind":"Secret","stringData":{"password":"canary-value"},"data":{"password":"%s"}}`, canary),
	}
}

// malformedSecrets: what the proxy does to the frame of a Secret of that name. The
// first two cannot be passed on; the third comes out, with its data as one hash.
var malformedSecrets = map[string]*strings.Replacer{ //nolint:gochecknoglobals // a constant table
	"broken-json":  strings.NewReplacer(`"password":"`+canary+`"`, `"password":`+canary),
	"broken-uid":   strings.NewReplacer(`"uid":`, `"uix":`),
	"strange-data": strings.NewReplacer(`"password":"`+canary+`"`, `"password":["`+canary+`"]`),
}

// TestSecretValuesNeverShow: a Secret's changes come out, its values nowhere, not
// even when informd complains about it.
func TestSecretValuesNeverShow(t *testing.T) {
	t.Setenv("INFORMD_LOG_LEVEL", "debug")
	c := cluster.Start(t, cluster.Options{})
	client := dynamic.NewForConfigOrDie(fast(c.RESTConfig()))
	p := startProxy(t, c.RESTConfig())
	p.set(func() { p.mangle = mangleSecrets })
	w := newWriter(client, secretKind(), newLedger(), 1)
	if err := w.create(t.Context(), "existed"); err != nil {
		t.Fatal(err)
	}
	w.ledger.begin()
	d := newInformd(t, setup{
		kubeconfig: p.kubeconfig, resources: "- {resource: secrets}", sinks: "- {name: screen, type: stdout, format: pretty}", journal: logJournal,
	})
	d.start()
	d.waitForSync(1)
	eventually(t, "a watch", func() (begun bool) {
		p.set(func() { begun = p.watches["secrets"] > 0 })
		return begun
	})
	p.cutNow() // a watch that ends so soon is a line in the log at debug level
	changeSecrets(t, w)
	broken := newWriter(client, secretKind(), newLedger(), 2)
	for name := range malformedSecrets {
		if err := broken.create(t.Context(), name); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.create(t.Context(), "last"); err != nil {
		t.Fatal(err)
	}
	eventually(t, "all events", func() bool {
		return complete([]kind{w.kind}, d.records(), w.ledger) && strings.Contains(d.stdout.String(), "default/last")
	})
	checkHashes(t, d.records())
	checkStrangeData(t, d.records())
	checkSecretLetters(t, readLetters(t, d, "source"))
	d.checkShowsNone(secretCanaries(t))
	d.checkJournalOnDisk(`"password":"hmac-sha256:`)
}

// checkJournalOnDisk makes sure that the journal's files would show a value: they
// show the hash of it.
func (d *informd) checkJournalOnDisk(hash string) {
	d.t.Helper()
	shown := false
	err := filepath.WalkDir(d.journalDir(), func(path string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() {
			return err
		}
		b, err := os.ReadFile(path)
		shown = shown || strings.Contains(string(b), hash)
		return err
	})
	if err != nil || !shown {
		d.t.Errorf("no file below %s has the hash of a value, so that nothing is proven: %v", d.journalDir(), err)
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
func changeSecrets(t *testing.T, w *writer) {
	t.Helper()
	if err := w.create(t.Context(), "live"); err != nil {
		t.Fatal(err)
	}
	if err := w.update(t.Context(), "live"); err != nil {
		t.Fatal(err)
	}
	w.kind.patch = func(int) string { return fmt.Sprintf(`{"data":{"password":"%s"}}`, otherCanary) }
	if err := w.update(t.Context(), "live"); err != nil {
		t.Fatal(err)
	}
	if err := w.delete(t.Context(), "existed", w.alive["existed"]); err != nil {
		t.Fatal(err)
	}
}

func checkHashes(t *testing.T, records []record) {
	t.Helper()
	var hashes []string
	for _, r := range records {
		if r.Name == "live" {
			var o struct{ Data struct{ Password string } }
			if err := json.Unmarshal(r.Data.Object, &o); err != nil {
				t.Fatal(err)
			}
			hashes = append(hashes, o.Data.Password)
		}
	}
	if len(hashes) != 3 || !strings.HasPrefix(hashes[0], "hmac-sha256:") || hashes[0] != hashes[1] || hashes[1] == hashes[2] {
		t.Errorf("hashes %q: want the second to equal the first, and the third not", hashes)
	}
}

func checkStrangeData(t *testing.T, records []record) {
	t.Helper()
	i := slices.IndexFunc(records, func(r record) bool { return r.Name == "strange-data" })
	if i < 0 || !strings.Contains(string(records[i].Data.Object), `"data":"hmac-sha256:`) {
		t.Error("a Secret whose data is not an object of strings did not come out with a hash of it")
	}
}

// checkSecretLetters: the malformed Secrets are reported, without their bytes.
func checkSecretLetters(t *testing.T, letters string) {
	t.Helper()
	for _, name := range []string{"broken-json", "broken-uid"} {
		if !strings.Contains(letters, `"key":"default/`+name+` `) {
			t.Errorf("no dead letter names %s: %s", name, letters)
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
	for _, value := range []string{canary, otherCanary} {
		plain, err := base64.StdEncoding.DecodeString(value)
		if err != nil {
			t.Fatal(err)
		}
		values = append(values, value, string(plain))
	}
	return values
}

// checkShowsNone looks for values in all that informd has put out.
func (d *informd) checkShowsNone(values []string) {
	d.t.Helper()
	places := map[string]string{"stdout": d.stdout.String(), "the log": d.stderr.String()}
	for _, path := range []string{"/status", "/metrics"} {
		body, _, err := d.get(path)
		if err != nil {
			d.t.Fatal(err)
		}
		places[path] = string(body)
	}
	err := filepath.WalkDir(d.dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() {
			return err
		}
		b, err := os.ReadFile(path)
		if len(b) > 0 {
			places[path] = string(b)
		}
		return err
	})
	if err != nil {
		d.t.Fatal(err)
	}
	for place, text := range places {
		if text == "" {
			d.t.Errorf("%s is empty, so that nothing is proven", place)
		}
		for _, value := range values {
			if strings.Contains(text, value) {
				d.t.Errorf("%s shows the value %s", place, value)
			}
		}
	}
	if log := d.stderr.String(); !strings.Contains(log, "level=DEBUG") {
		d.t.Errorf("the log is not at debug level: %s", log)
	}
}

package watching_test

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

	"github.com/informd/informd/test/e2e"
)

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

package configfile_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestMissingFiles: each key with a file that does not exist is a warning, with its place.
func TestMissingFiles(t *testing.T) {
	t.Chdir(t.TempDir())
	if err := os.WriteFile("here.key", nil, 0o600); err != nil {
		t.Fatal(err)
	}
	there, err := filepath.Abs("here.key")
	if err != nil {
		t.Fatal(err)
	}
	body := `cluster: c
resources: [pods]
sinks:
  - {name: a, type: webhook, url: "https://a", headers: {aFile: gone}, signing: {keyFile: gone.key}}
admin: {tokenFile: gone.token, tls: {clientCAFile: /gone/ca.pem, certFile: here.key, keyFile: ` + there + `}}
`
	t.Setenv("INFORMD_REDACTION_KEY_FILE", "gone.redaction")
	if err := os.WriteFile("config.yaml", []byte(body), 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := load(t)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, one := range c.MissingFiles() {
		got = append(got, one.Error())
	}
	const missing, relative = "does not exist on this machine: create it where informd runs", "; the path is relative to the working directory of informd"
	want := []string{
		`INFORMD_REDACTION_KEY_FILE: redaction.keyFile: file "gone.redaction" ` + missing + relative,
		`./config.yaml:5:20: admin.tokenFile: file "gone.token" ` + missing + relative,
		`./config.yaml:5:52: admin.tls.clientCAFile: file "/gone/ca.pem" ` + missing,
		`./config.yaml:4:91: sinks[0].signing.keyFile: file "gone.key" ` + missing + relative,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("warnings (-want +got):\n%s", diff)
	}
	if len(c.Warnings) > 0 {
		t.Errorf("warnings of every start: %v", c.Warnings)
	}
}

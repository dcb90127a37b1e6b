package nats_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/informd/informd/pkg/sink"
	"github.com/informd/informd/pkg/sink/nats"
	"github.com/informd/informd/pkg/sink/sinktest"
)

func TestValidate(t *testing.T) {
	const canary = "canary-8e0d"
	tests := map[string]struct {
		yaml string
		keys string // of the problems, sorted; "-" is the entry itself
	}{
		"least":               {"url: nats://nats:4222", ""},
		"several servers":     {"url: 'nats://a:4222, tls://b:4222,wss://c'", ""},
		"all of a stream":     {"url: nats://n\njetstream: true\nsubjectPrefix: a.b\nstream: S\nmaxAge: 72h\nmaxBytes: 10GiB\nreplicas: 3", ""},
		"formats":             {"url: nats://n\nformat: raw", ""},
		"unknown format":      {"url: nats://n\nformat: structured", "format"},
		"no url":              {"jetstream: true", "url"},
		"empty among servers": {"url: 'nats://a,,nats://b'", "url"},
		"no scheme":           {"url: canary-8e0d:4222", "url"},
		"other scheme":        {"url: https://canary-8e0d", "url"},
		"no host":             {"url: nats://canary-8e0d@", "url"},
		"not an address":      {"url: 'nats://u:canary-8e0d%zz@host'", "url"},
		"bad port":            {"url: 'nats://u:p@host:canary-8e0d'", "url"},
		"prefix":              {"url: nats://n\nsubjectPrefix: 'a..b'", "subjectPrefix"},
		"prefix wildcard":     {"url: nats://n\nsubjectPrefix: 'k8s.>'", "subjectPrefix"},
		"stream with a dot":   {"url: nats://n\njetstream: true\nstream: a.b", "stream"},
		"no stream name":      {"url: nats://n\njetstream: true\nstream: ''", "stream"},
		"limits of nothing":   {"url: nats://n\nmaxAge: 1h", "jetstream"},
		"history of nothing":  {"url: nats://n\nhistoryPerObject: 1", "jetstream"},
		"all of history":      {"url: nats://n\njetstream: true\nhistoryPerObject: 0", ""},
		"negative history":    {"url: nats://n\njetstream: true\nhistoryPerObject: -1", "historyPerObject"},
		"negative age":        {"url: nats://n\njetstream: true\nmaxAge: -1h", "maxAge"},
		"replicas":            {"url: nats://n\njetstream: true\nreplicas: 6", "replicas"},
		"half a key pair":     {"url: nats://n\ntls: {certFile: c}", "tls"},
		"two credentials":     {"url: nats://n\ncredsFile: c\nnkeyFile: n", "-"},
		"user and creds":      {"url: tls://u:canary-8e0d@n\ncredsFile: c", "-"},
		"creds in the clear":  {"url: nats://n\ncredsFile: c", ""}, // signs, does not send
		"password exposed":    {"url: nats://u:canary-8e0d@n", "url"},
		"token exposed":       {"url: nats://n\ntokenFile: t", "url"},
		"exposed to one":      {"url: 'nats://u:p@localhost,nats://u:canary-8e0d@n'", "url"},
		"password over TLS":   {"url: tls://u:p@n", ""},
		"password, tls key":   {"url: nats://u:p@n\ntls: {caFile: c}", ""},
		"password at home":    {"url: 'nats://u:p@127.0.0.1,nats://u:p@[::1]:4222,nats://u:p@localhost'", ""},
		"password allowed":    {"url: nats://u:p@n\nallowPlaintext: true", ""},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			c := nats.Driver().New()
			if err := yaml.UnmarshalWithOptions([]byte(tt.yaml), c, yaml.Strict()); err != nil {
				t.Fatal(err)
			}
			var keys []string
			for _, p := range c.Validate() {
				if p.Key == "" {
					p.Key = "-"
				}
				keys = append(keys, p.Key)
				if strings.Contains(p.Message, canary) {
					t.Errorf("the message shows a secret: %s", p.Message)
				}
			}
			slices.Sort(keys)
			if diff := cmp.Diff(strings.Fields(tt.keys), keys, cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("problems about (-want +got):\n%s", diff)
			}
			if shown := fmt.Sprintf("%v %+v %#v", c, c, c); strings.Contains(shown, canary) {
				t.Errorf("the options show a secret: %s", shown)
			}
		})
	}
}

func TestDefaults(t *testing.T) {
	d := nats.Driver()
	c, ok := d.New().(*nats.Config)
	if !ok || d.Type != "nats" || d.Lanes != 1 || c.SubjectPrefix != "events" || c.HistoryPerObject != 16 || c.Stream != "INFORMD_EVENTS" || c.JetStream {
		t.Errorf("driver %+v, options %+v", d, c)
	}
}

// TestOpenNeedsItsFiles names files that are not there, or hold something else.
func TestOpenNeedsItsFiles(t *testing.T) {
	missing := filepath.Join(t.TempDir(), "missing")
	wrong := filepath.Join(t.TempDir(), "wrong")
	if err := os.WriteFile(wrong, []byte("\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, file := range []string{missing, wrong} {
		for key, change := range map[string]func(c *nats.Config){
			"credsFile": func(c *nats.Config) { c.CredsFile = file },
			"nkeyFile":  func(c *nats.Config) { c.NkeyFile = file },
			"tokenFile": func(c *nats.Config) { c.TokenFile = file },
			"caFile":    func(c *nats.Config) { c.TLS.CAFile = file },
			"certFile":  func(c *nats.Config) { c.TLS.CertFile, c.TLS.KeyFile = file, file },
		} {
			t.Run(key+" "+filepath.Base(file), func(t *testing.T) {
				_, err := config(t, "nats://127.0.0.1:1", change).Open(t.Context(), sinktest.Env(t))
				if err == nil || !strings.Contains(err.Error(), key) || !strings.Contains(err.Error(), file) {
					t.Errorf("Open: %v, want an error that names %s and the file", err, key)
				}
			})
		}
	}
}

func config(t *testing.T, url string, change func(c *nats.Config)) *nats.Config {
	t.Helper()
	c, ok := nats.Driver().New().(*nats.Config)
	if !ok {
		t.Fatal("the driver's options are no *nats.Config")
	}
	c.URL = sink.NewSecret(url)
	if change != nil {
		change(c)
	}
	return c
}

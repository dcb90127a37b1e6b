package configfile_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/informd/informd/internal/config"
	"github.com/informd/informd/internal/configfile"
)

// What a secret says shows neither in a printed Config nor in an error about
// whatever else is wrong in its neighbourhood.
func TestSecretsDoNotShow(t *testing.T) {
	const secret = "hunter2-hunter2"
	t.Setenv("TEST_SECRET", secret)
	c := mustParse(t, `
cluster: c
resources: [{resource: pods}]
sinks:
  - {name: a, type: nats, servers: "${env:TEST_SECRET}"}
  - {name: b, type: webhook, url: u, headers: {Authorization: "Bearer `+secret+`"}}
`)
	for _, format := range []string{"%v", "%+v", "%#v"} {
		printed := fmt.Sprintf(format, *c)
		for _, s := range c.Sinks {
			printed += fmt.Sprintf(format, s.Options)
		}
		if strings.Contains(printed, secret) {
			t.Errorf("%s shows the secret: %s", format, printed)
		}
	}

	for name, entry := range map[string]string{
		"of the wrong type":     `{name: a, type: nats, servers: [[` + secret + `]]}`,
		"in a mapping":          `{name: a, type: nats, servers: {` + secret + `: ` + secret + `}}`,
		"beside an unknown key": `{name: a, type: nats, servers: ` + secret + `, passwd: ` + secret + `}`,
		"as a bad block":        `{name: a, type: nats}` + "]\nx: |" + secret + "\n#",
		"under an unknown type": `{name: a, type: natz, servers: ` + secret + `}`,
		"given twice":           `{name: a, type: nats, servers: ` + secret + `, servers: ` + secret + `}`,
		"in a reserved header":  `{name: a, type: webhook, url: u, headers: {X.Forbidden: ` + secret + `}}`,
	} {
		_, err := parse("cluster: c\nresources: [{resource: pods}]\nsinks: [" + entry + "]\n")
		if err == nil || strings.Contains(err.Error(), secret) {
			t.Errorf("%s: error = %v, want one that does not show the secret", name, err)
		}
	}
}

// Whatever the bytes, Parse returns either a config or errors, each on one
// line and inside of the file.
func FuzzParse(f *testing.F) {
	files, err := filepath.Glob("testdata/*.yaml")
	if err != nil || len(files) == 0 {
		f.Fatalf("no seeds: %v", err)
	}
	for _, file := range files {
		body, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(body)
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		c, err := configfile.Parse("config.yaml", body, fakeDrivers())
		if err == nil {
			if len(c.Resources) == 0 || len(c.Sinks) == 0 || c.Cluster == "" {
				t.Errorf("a config without what it must have: %+v", c)
			}
			return
		}
		var list config.Errors
		if !errors.As(err, &list) || len(list) == 0 || c != nil {
			t.Fatalf("error is a %T (%v), config %v", err, err, c)
		}
		text := strings.TrimPrefix(string(body), "\ufeff")
		lines := strings.Split(strings.NewReplacer("\r\n", "\n", "\r", "\n").Replace(text), "\n")
		for _, e := range list {
			if e.Line < 1 || e.Line > len(lines) || e.Col < 1 || e.Col > utf8.RuneCountInString(lines[e.Line-1])+1 {
				t.Errorf("outside of the file: %v", e)
			}
			if strings.ContainsAny(e.Error(), "\n\r\x00\x1b") || !utf8.ValidString(e.Error()) || e.Msg == "" {
				t.Errorf("not one readable line: %q", e.Error())
			}
		}
	})
}

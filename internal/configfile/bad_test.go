package configfile_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/informd/informd/internal/config"
	"github.com/informd/informd/internal/configfile"
)

// Each testdata/*.bad.yaml has a mistake or more. Its first lines, comments, are what the user is to read about them
// after the file's name: all at once, in the order of the file, each once, and none that only follows from another.
func TestMistakes(t *testing.T) {
	t.Setenv("INFORMD_TEST_IS_EMPTY", "")
	files, err := filepath.Glob("testdata/*.bad.yaml")
	if err != nil || len(files) < 100 {
		t.Fatalf("found %d files (%v): the tests are gone", len(files), err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".bad.yaml"), func(t *testing.T) {
			body, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			var want []string
			for line := range strings.SplitSeq(string(body), "\n") {
				comment, ok := strings.CutPrefix(line, "# ")
				if !ok {
					break
				}
				want = append(want, file+":"+comment)
			}
			c, err := configfile.Parse(file, body, fakeDrivers())
			if c != nil {
				t.Error("a Config came with the error")
			}
			if diff := cmp.Diff(want, strings.Split(text(err), "\n")); diff != "" {
				t.Errorf("error (-want +got):\n%s", diff)
			}
		})
	}
}

// Only the names that a rotation gives are refused beside the path of a file sink.
func TestPathsBesideAFileSink(t *testing.T) {
	for _, path := range []string{"/d/e.x", "/d/e.1.log", "/d/e1", "/d/e.1/f", "/d/f.1", "/d/e.gz"} {
		body := "resources: [{resource: pods}]\nsinks: [{name: one, type: file, path: /d/e}, {name: two, type: file, path: " + path + "}]\n"
		if _, err := configfile.Parse("c.yaml", []byte(body), fakeDrivers()); err != nil {
			t.Errorf("%s: %v", path, err)
		}
	}
}

func text(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// What cannot well stand in a file of testdata.
func TestBadBytes(t *testing.T) {
	const good = "resources: [{resource: pods}]\nsinks: [{name: out, type: stdout}]\n"
	many := func(n int, s string) string { return strings.Repeat(s, n) }
	tests := map[string]struct{ body, want string }{
		"empty":            {"", "config.yaml:1:1: the file is empty: it needs at least one entry of resources and one of sinks"},
		"only a separator": {"---\n", "config.yaml:1:1: the file is empty: it needs at least one entry of resources and one of sinks"},
		"UTF-16":           {"\xff\xfea\x00", "config.yaml:1:1: the file is in UTF-16: save it as UTF-8"},
		"Latin-1":          {good + "# caf\xe9\n", "config.yaml:3:6: byte 0xe9 is not UTF-8"},
		"NUL":              {good + "cluster: ü\x00\n", "config.yaml:3:11: control character U+0000"},
		"NUL on CRLF":      {"a: 1\r\nb: \x00\r\n", "config.yaml:2:4: control character U+0000"},
		"too large":        {many(1<<20, "#") + "\n", "config.yaml:1:1: a config of more than 1048576 bytes"},
		"brackets":         {many(1<<19, "["), "config.yaml:1:1: the file is too large: more than 30000 words and signs"},
		"some brackets":    {many(52, "[") + many(52, "]"), "config.yaml:1:52: nested deeper than 50 levels"},
		"braces":           {many(51, "{a: ") + many(51, "}"), "config.yaml:1:202: nested deeper than 50 levels"},
		"lists in lists":   {many(60, "- "), "config.yaml:1:103: nested deeper than 50 levels"},
		"indentation": {
			func() (s string) {
				for i := range 60 {
					s += many(i, " ") + "a:\n"
				}
				return s
			}(),
			"config.yaml:51:51: nested deeper than 50 levels",
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			_, err := parse(tt.body)
			lines := strings.Split(text(err), "\n")
			if diff := cmp.Diff(tt.want, lines[len(lines)-1]); diff != "" {
				t.Errorf("error (-want +got):\n%s", diff)
			}
		})
	}
}

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

package configfile_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/informd/informd/internal/config"
	"github.com/informd/informd/internal/configfile"
)

// Each testdata/*.bad.yaml has one mistake, and in its first line, a comment,
// what the user is to read about it, after the file's name.
func TestOneMistake(t *testing.T) {
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
			comment, _, _ := strings.Cut(string(body), "\n")
			want := file + ":" + strings.TrimPrefix(comment, "# ")
			c, err := configfile.Parse(file, body, fakeDrivers())
			if c != nil {
				t.Error("a Config came with the error")
			}
			if diff := cmp.Diff(want, text(err)); diff != "" {
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

// A key that is not known hides nothing of the key that was meant if that is there, too.
func TestUnknownKeyBesideTheRightOne(t *testing.T) {
	for _, keys := range []string{
		"resource: x\nresources:\n  - {resource: Pods}\n",
		"resources:\n  - {resource: Pods}\nresource: x\n",
	} {
		_, err := configfile.Parse("c.yaml", []byte("cluster: c\nsinks: [{name: out, type: stdout}]\n"+keys), fakeDrivers())
		for _, want := range []string{`resource: unknown key`, `resources[0].resource: "Pods"`} {
			if !strings.Contains(text(err), want) {
				t.Errorf("of\n%sthe error is\n%v\nwant %q, too", keys, err, want)
			}
		}
	}
}

// All mistakes are told at once, in the order of the file, each once, and none
// that only follows from another.
func TestTwentyMistakes(t *testing.T) {
	const file = "testdata/twenty-mistakes.yaml"
	body, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	_, err = configfile.Parse(file, body, fakeDrivers())
	var list config.Errors
	if !errors.As(err, &list) {
		t.Fatalf("error is a %T, want config.Errors: %v", err, err)
	}
	var got []string
	for _, e := range list {
		if e.File != file {
			t.Errorf("file = %q, want %q", e.File, file)
		}
		got = append(got, strings.TrimPrefix(e.Error(), file+":"))
	}
	want := []string{
		`2:1: clutser: unknown key (did you mean "cluster"?)`,
		`4:29: resources[0].resource: "Deployment": resource is the plural name, as in ` + "`kubectl api-resources`" + ` (did you mean "deployments"?)`,
		`5:15: resources[1].version: "v_1" is not a version: write one as in v1 or v1beta1, or remove the key for the one the server prefers`,
		`7:11: resources[2].mode: unknown value "metdata" (did you mean "metadata"?)`,
		`8:17: resources[2].namespaces: must be a list, not text`,
		`9:20: resources[2].labelSelector: "app in" is not a label selector, as in "app=web,tier in (a,b)": unable to parse requirement: found '' expected: '('`,
		`10:5: resources[2].fieldselector: unknown key (did you mean "fieldSelector"?)`,
		`12:5: resources[3]: core/pods has an entry on line 6 already: a resource has one entry; write one in the place of both, which differ in version, labelSelector`,
		`13:41: resources[4].namespaces[0]: "Team-*" is not a pattern for namespaces: lower-case letters, digits and '-', and * for any of them, ? for one, [abc] for one of these`,
		`15:9: journal.type: unknown value "memroy" (did you mean "memory"?)`,
		`16:13: journal.maxBytes: "16 MB" is not a size: a whole number and B, KiB, MiB, GiB or TiB, as in 100MiB`,
		`17:3: journal.synk: unknown key (did you mean "sync"?)`,
		`20:13: sinks[0].format: is neither "cloudevents" nor "pretty"`,
		`22:12: sinks[1].name: "out" is the name of sinks[0] already`,
		`22:23: sinks[1].type: unknown sink type "webhok" (did you mean "webhook"?)`,
		`26:14: sinks[2].timeout: "10" is not a duration: numbers with units, as in 10s or 1h30m`,
		`27:5: sinks[2].bacth: unknown key (did you mean "batch"?)`,
		`29:23: sinks[2].match[0].ops[1]: unknown operation "modfied" (did you mean "modified"?)`,
		`31:11: admin.listen: "localhost" is not host:port with a port of 0 to 65535, as in 127.0.0.1:8080 or :8080 (all addresses); "" turns it off`,
		`32:14: log.level: unknown value "loud" (one of: debug, info, warn, error)`,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("errors (-want +got):\n%s", diff)
	}
	if len(got) != 20 {
		t.Errorf("%d errors, want 20", len(got))
	}
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

// A mistake that aliases repeat is told where it stands, once.
func TestAliasedMistake(t *testing.T) {
	_, err := parse(`
resources: [{resource: pods}]
sinks:
  - &s {name: a, type: stdout, start: later}
  - {<<: *s, name: b}
  - {<<: *s, name: c}
`)
	want := `config.yaml:4:39: sinks[0].start: unknown value "later" (one of: snapshot, now)`
	if diff := cmp.Diff(want, text(err)); diff != "" {
		t.Errorf("error (-want +got):\n%s", diff)
	}
}

package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// person answers questions.
type person struct{ *strings.Reader }

func (person) Interactive() bool { return true }

// TestInit: the config that init writes validates, and a file that exists stays.
func TestInit(t *testing.T) {
	for name, test := range map[string]struct{ args, want []string }{
		"defaults": {nil, []string{"resources: 2, sinks: 1", "type: \"stdout\""}},
		"flags": {
			[]string{
				"--resources", "pods,deployments.apps", "--sink", "nats", "--set", "servers=[nats://a:4222, nats://b:4222]", "--set", "create={maxBytes: 10GiB}",
				"--cluster", "prod", "--context", "dev@home",
			},
			[]string{"resources: 2, sinks: 1", "cluster: \"prod\"", "context: \"dev@home\"", "a:4222", "b:4222", "create: {maxBytes"},
		},
		"wildcard": {[]string{"--resources", "*.apps,configmaps"}, []string{"resources: 2, sinks: 1"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Chdir(t.TempDir())
			args := append([]string{"init"}, test.args...)
			var out, errs screen
			if code := run(t.Context(), args, &out, &errs); code != exitOK {
				t.Fatalf("exit %d\n%s", code, errs.String())
			}
			config, err := os.ReadFile("config.yaml")
			if err != nil {
				t.Fatal(err)
			}
			var valid, wrong screen
			if code := run(t.Context(), []string{"validate"}, &valid, &wrong); code != exitOK || wrong.String() != "" && !strings.Contains(wrong.String(), "events cross the network") {
				t.Errorf("validate: exit %d\n%s\n%s", code, wrong.String(), config)
			}
			for _, want := range test.want {
				if !strings.Contains(valid.String()+string(config), want) {
					t.Errorf("no %q in\n%s\n%s", want, valid.String(), config)
				}
			}
			if code := run(t.Context(), append(args, "--resources", "secrets"), &out, &errs); code != exitUsage || !strings.Contains(errs.String(), "--force") {
				t.Errorf("a second init: exit %d\n%s", code, errs.String())
			}
			if again, err := os.ReadFile("config.yaml"); err != nil || string(again) != string(config) {
				t.Errorf("%v, the second init changed the config", err)
			}
		})
	}
}

// TestInitSinks: init writes a config with a sink of any type that the program has.
func TestInitSinks(t *testing.T) {
	required := map[string][]string{
		"exec": {"command=[cat]"}, "file": {"path=events.ndjson"}, "kafka": {"servers=[kafka:9092]", "topic=k8s"}, "nats": {"servers=nats://nats:4222"},
		"otlp": {"url=https://collector:4318"}, "postgres": {"servers=pg:5432", "auth={username: informd}", "database=inventory"}, "stdout": nil,
		"webhook": {`url="https://example.com/events"`},
	}
	for _, name := range sinkTypes(standard().Drivers) {
		t.Run(name, func(t *testing.T) {
			t.Chdir(t.TempDir())
			args := []string{"init", "--cluster", "prod", "--sink", name}
			for _, option := range required[name] {
				args = append(args, "--set", option)
			}
			var out, errs screen
			if code := run(t.Context(), args, &out, &errs); code != exitOK {
				t.Fatalf("exit %d\n%s", code, errs.String())
			}
			if code := run(t.Context(), []string{"validate"}, &out, &errs); code != exitOK {
				t.Errorf("validate: exit %d\n%s", code, errs.String())
			}
		})
	}
}

// TestInitRefuses: mistakes leave no file.
func TestInitRefuses(t *testing.T) {
	t.Chdir(t.TempDir())
	for says, args := range map[string][]string{
		"cluster":                    {"--sink", "nats", "--set", "servers=nats:4222"},
		"resources[0]":               {"--resources", "a/b"},
		`"hook"`:                     {"--sink", "hook"},
		"sinks[0].url: is required":  {"--sink", "webhook"},
		"it must be key=value":       {"--set", "url"},
		`did you mean "format"?`:     {"--set", "formt=raw"},
		"unexpected argument \"pods": {"pods"},
	} {
		var out, errs screen
		if code := run(t.Context(), append([]string{"init"}, args...), &out, &errs); code != exitUsage || !strings.Contains(errs.String(), says) {
			t.Errorf("%q: exit %d, want %q in\n%s", args, code, says, errs.String())
		}
	}
	if files, err := os.ReadDir("."); err != nil || len(files) > 0 {
		t.Errorf("%v, left: %v", err, files)
	}
}

// TestInitKeepsLinks: with --force, a config behind a symbolic link is replaced, and the link stays.
func TestInitKeepsLinks(t *testing.T) {
	t.Chdir(t.TempDir())
	shared := filepath.Join(t.TempDir(), "shared.yaml")
	write(t, shared, strings.Repeat("old", 1000))
	if err := os.Symlink(shared, "config.yaml"); err != nil {
		t.Fatal(err)
	}
	var out, errs screen
	if code := run(t.Context(), []string{"init", "--force"}, &out, &errs); code != exitOK {
		t.Fatalf("exit %d\n%s", code, errs.String())
	}
	if to, err := os.Readlink("config.yaml"); err != nil || to != shared {
		t.Errorf("config.yaml leads to %q (%v), want %s", to, err, shared)
	}
	if content, err := os.ReadFile(shared); err != nil || strings.Contains(string(content), "old") {
		t.Errorf("%v, the config is %q", err, content)
	}
}

// TestConfirm: a destructive command asks a person, and any answer but yes ends it.
func TestConfirm(t *testing.T) {
	for answer, want := range map[string]bool{"y\n": true, "Yes\n": true, "\n": false, "no\n": false, "": false} {
		var shown screen
		err := confirm(streams{in: person{strings.NewReader(answer)}, err: &shown}, "Drop everything?")
		if (err == nil) != want || shown.String() != "Drop everything? [y/N] " {
			t.Errorf("%q: %v after %q", answer, err, shown.String())
		}
	}
}

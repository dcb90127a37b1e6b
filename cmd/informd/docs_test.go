package main

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestDocsSinks: what docs/sinks.md shows of a config is what comes of it. A block of yaml
// is a config, and the block behind it what try shows of its sinks, or the error of
// validate; "…" there is any text.
func TestDocsSinks(t *testing.T) {
	page, err := os.ReadFile("../../docs/sinks.md")
	if err != nil {
		t.Fatal(err)
	}
	t.Chdir(t.TempDir())
	for name, text := range map[string]string{
		"hook.secret": "whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=\n", "hook.token": "canary\n", "kafka.password": "canary\n",
	} {
		write(t, name, text)
	}
	var config string
	shown := 0
	for _, block := range regexp.MustCompile("(?ms)^```(json object|yaml|text|error)\n(.*?)^```").FindAllStringSubmatch(string(page), -1) {
		switch language, body := block[1], block[2]; language {
		case "json object":
			write(t, "web.json", body)
		case "yaml":
			config = body
			write(t, "config.yaml", "cluster: prod-eu1\nresources: [{group: apps, resource: deployments}]\njournal: {type: memory}\n"+body)
		case "text":
			shown++
			var out, complaints bytes.Buffer
			if code := run(t.Context(), []string{"try", "-c", "config.yaml", "-f", "web.json", "--resource", "deployments"}, &out, &complaints); code != exitOK {
				t.Fatalf("exit code %d for\n%s\n%s", code, config, &complaints)
			}
			_, sinks, _ := strings.Cut(out.String(), "\nsink ")
			expectText(t, config, body, "sink "+sinks)
		case "error":
			shown++
			var out, complaints bytes.Buffer
			if code := run(t.Context(), []string{"validate", "-c", "config.yaml"}, &out, &complaints); code != exitUsage {
				t.Errorf("exit code %d for\n%s", code, config)
			}
			expectText(t, config, "config.yaml:…: "+body, complaints.String())
		}
	}
	if shown < 6 {
		t.Errorf("%d outputs", shown)
	}
}

func write(t *testing.T, name, text string) {
	t.Helper()
	if err := os.WriteFile(filepath.Clean(name), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// expectText compares what is shown for a config with what the docs say.
func expectText(t *testing.T, config, want, got string) {
	t.Helper()
	pattern := strings.ReplaceAll(regexp.QuoteMeta(strings.TrimSpace(want)), "…", ".*?")
	if !regexp.MustCompile("(?s)^" + pattern + "$").MatchString(strings.TrimSpace(got)) {
		t.Errorf("the docs show\n%s\nfor\n%s\nbut it is\n%s", want, config, got)
	}
}

package cli

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
)

// docsBlock is a fenced block of a Markdown page.
type docsBlock struct{ language, text string }

// docsPages returns the Markdown pages for users, by their path in the repository.
func docsPages(t *testing.T) map[string]string {
	t.Helper()
	pages := make(map[string]string)
	for _, pattern := range []string{"*.md", "deploy/*.md", "deploy/helm/*/*.md", "docs/*.md", "docs/*/*.md", "examples/*.md"} {
		files, err := filepath.Glob("../../" + pattern)
		if err != nil || len(files) == 0 {
			t.Fatalf("%s matches %d pages: %v", pattern, len(files), err)
		}
		for _, file := range files {
			pages[strings.TrimPrefix(filepath.ToSlash(file), "../../")] = docsPage(t, file)
		}
	}
	return pages
}

func docsPage(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Clean(file))
	must(t, err)
	return string(text)
}

// docsBlocks returns the fenced blocks of a page in their order. A block in a list loses its
// indentation.
func docsBlocks(page string) []docsBlock {
	var blocks []docsBlock
	for _, found := range regexp.MustCompile("(?ms)^( *)```([^\n`]*)\n(.*?)^ *```$").FindAllStringSubmatch(page, -1) {
		text := found[3]
		if found[1] != "" {
			text = regexp.MustCompile("(?m)^"+found[1]).ReplaceAllString(text, "")
		}
		blocks = append(blocks, docsBlock{language: found[2], text: text})
	}
	return blocks
}

// docsConfig completes a yaml block with the keys that every config needs. They are appended, so that
// the lines keep their numbers. It reports false for a Kubernetes manifest.
func docsConfig(t *testing.T, page, text string) (string, bool) {
	t.Helper()
	var keys map[string]any
	if err := yaml.Unmarshal([]byte(text), &keys); err != nil {
		t.Errorf("%s: %v in:\n%s", page, err, text)
		return "", false
	}
	if keys["kind"] != nil {
		return "", false
	}
	if values, ok := keys["config"].(map[string]any); ok { // values of the Helm chart
		inner, err := yaml.Marshal(values)
		must(t, err)
		keys, text = values, string(inner)
	}
	for _, part := range []struct{ key, text string }{
		{"cluster", "cluster: prod-eu1\n"},
		{"resources", "resources: [{resource: deployments, group: apps}, {resource: pods}]\n"},
		{"sinks", "sinks: [{name: out, type: stdout}]\n"},
	} {
		if keys[part.key] == nil {
			text += part.text
		}
	}
	for _, name := range regexp.MustCompile(`\$\{env:(\w+)\}`).FindAllStringSubmatch(text, -1) {
		t.Setenv(name[1], "nats://127.0.0.1:4222")
	}
	return text, true
}

// TestDocsConfigs validates every yaml block of the pages that is a config. If an error block
// follows, the config is wrong, and the block has the errors.
func TestDocsConfigs(t *testing.T) {
	pages := docsPages(t)
	t.Chdir(t.TempDir())
	checked := 0
	for name, page := range pages {
		blocks := docsBlocks(page)
		for i, block := range blocks {
			if block.language != "yaml" {
				continue
			}
			config, ok := docsConfig(t, name, block.text)
			if !ok {
				continue
			}
			checked++
			write(t, "config.yaml", config)
			var out, complaints bytes.Buffer
			code := run(t.Context(), []string{"validate", "-c", "config.yaml"}, &out, &complaints)
			switch wrong := i+1 < len(blocks) && blocks[i+1].language == "error"; {
			case !wrong && code != exitOK:
				t.Errorf("%s: exit code %d for\n%s\n%s", name, code, block.text, &complaints)
			case wrong && code != exitUsage:
				t.Errorf("%s: exit code %d for\n%s", name, code, block.text)
			case wrong:
				expectText(t, block.text, blocks[i+1].text, complaints.String())
			}
		}
	}
	if checked < 30 {
		t.Errorf("found %d configs only", checked)
	}
}

// TestDocsSinks compares the text blocks in docs/sinks with the output of try for the config before
// each of them. "…" there is any text.
func TestDocsSinks(t *testing.T) {
	pages := docsPages(t)
	t.Chdir(t.TempDir())
	for name, text := range map[string]string{
		"hook.secret": "whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=\n", "hook.token": "canary\n", "kafka.password": "canary\n", "postgres.password": "canary\n",
	} {
		write(t, name, text)
	}
	for _, block := range docsBlocks(pages["docs/sinks/README.md"]) {
		if block.language == "json object" {
			write(t, "web.json", block.text)
		}
	}
	shown := 0
	for name, page := range pages {
		if !strings.HasPrefix(name, "docs/sinks/") {
			continue
		}
		var config string
		for _, block := range docsBlocks(page) {
			switch block.language {
			case "yaml":
				config = block.text
				text, _ := docsConfig(t, name, config)
				write(t, "config.yaml", text+"journal: {type: memory}\n")
			case "text":
				shown++
				out, _ := ends(t, exitOK, "try", "-c", "config.yaml", "-f", "web.json", "--resource", "deployments")
				_, sinks, _ := strings.Cut(out, "\nsink ")
				expectText(t, config, block.text, "sink "+sinks)
			}
		}
	}
	if shown < 6 {
		t.Errorf("%d outputs", shown)
	}
}

func write(t *testing.T, name, text string) {
	t.Helper()
	must(t, os.WriteFile(filepath.Clean(name), []byte(text), 0o600))
}

// expectText compares the output for a config with the text in the docs.
func expectText(t *testing.T, config, want, got string) {
	t.Helper()
	pattern := strings.ReplaceAll(regexp.QuoteMeta(strings.TrimSpace(want)), "…", ".*?")
	if !regexp.MustCompile("(?s)^" + pattern + "$").MatchString(strings.TrimSpace(got)) {
		t.Errorf("the docs show\n%s\nfor\n%s\nbut it is\n%s", want, config, got)
	}
}

package cli

import (
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestDocsShell: in the pages that people follow command by command, each block is a script that bash can
// read, and each target of make exists. Blocks that are no commands to run, such as output, have another
// language than sh. TestDocsCommands checks the calls of informd, test/helm and test/deploy the files and
// Secrets of deploy/README.md.
func TestDocsShell(t *testing.T) {
	pages := docsPages(t)
	makefile := docsPage(t, "../../Makefile")
	known := []string{
		"cd", "curl", "docker", "echo", "export", "git", "go", "head", "helm", "informd", "jq", "kubectl", "make", "nats", "openssl", "publish",
	}
	checked := 0
	for _, name := range []string{"README.md", "docs/getting-started.md", "docs/recipes.md", "docs/runbooks.md", "docs/operating.md", "deploy/README.md"} {
		for _, block := range docsBlocks(pages[name]) {
			if !isShell(block.language) {
				continue
			}
			checked++
			cmd := exec.CommandContext(t.Context(), "bash", "-n")
			cmd.Stdin = strings.NewReader(block.text)
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Errorf("%s: %v: %s\n%s", name, err, out, block.text)
			}
			for line := range strings.Lines(strings.ReplaceAll(block.text, "\\\n", "")) {
				word := regexp.MustCompile(`^\s*(\w+)`).FindStringSubmatch(line)
				if word != nil && !slices.Contains(known, word[1]) {
					t.Errorf("%s: %s is no command that a block of sh may have: is it output?", name, word[1])
				}
			}
			for _, target := range regexp.MustCompile(`(?m)^\s*make ([a-z-]+)`).FindAllStringSubmatch(block.text, -1) {
				if !strings.Contains(makefile, "\n"+target[1]+":") {
					t.Errorf("%s: the Makefile has no target %s", name, target[1])
				}
			}
		}
	}
	if checked < 15 {
		t.Errorf("found %d blocks only", checked)
	}
}

// isShell reports whether a block has commands. TestDocsRun runs those of "sh", and TestDocsCommands of test/helm
// those of deploy/README.md and of "sh cluster". Nothing runs an illustration.
func isShell(language string) bool {
	return language == "sh" || language == "sh cluster" || language == "sh illustration"
}

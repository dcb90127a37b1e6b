package cli

import (
	"regexp"
	"strings"
	"testing"
)

// TestDocsCommands checks that each informd command in the pages exists and has its flags.
func TestDocsCommands(t *testing.T) {
	checked := 0
	for name, page := range docsPages(t) {
		if name == "CHANGELOG.md" || strings.HasPrefix(name, "docs/internals/") {
			continue
		}
		for _, args := range docsCommands(page) {
			checked++
			if problem := docsCommandProblem(args); problem != "" {
				t.Errorf("%s: informd %s: %s", name, strings.Join(args, " "), problem)
			}
		}
	}
	if checked < 60 {
		t.Errorf("found %d commands only", checked)
	}
}

// docsCommands returns the arguments of each call of informd in the shell blocks of a page and in its
// inline code.
func docsCommands(page string) [][]string {
	var lines []string
	for _, block := range docsBlocks(page) {
		if isShell(block.language) || block.language == "" {
			lines = append(lines, regexp.MustCompile(`[\n|;]|&&`).Split(block.text, -1)...)
		}
	}
	for _, code := range regexp.MustCompile("`((?:bin/)?informd [^`\n]+)`").FindAllStringSubmatch(docsText(page), -1) {
		lines = append(lines, code[1])
	}
	var calls [][]string
	for _, line := range lines {
		line, _, _ = strings.Cut(line, " #")
		line = strings.TrimPrefix(strings.TrimSpace(line), "$ ")
		if strings.HasPrefix(line, "kubectl ") {
			_, line, _ = strings.Cut(line, " -- ")
		}
		words := strings.Fields(line)
		if len(words) > 1 && (words[0] == "informd" || words[0] == "bin/informd") && regexp.MustCompile(`^[a-z-]+$`).MatchString(words[1]) {
			calls = append(calls, words[1:])
		}
	}
	return calls
}

// docsCommandProblem returns why a call of informd is wrong, and an empty string if it is right.
func docsCommandProblem(args []string) string {
	command, rest, err := newRoot(streams{program: standard()}).Find(args)
	if err != nil {
		return err.Error()
	}
	for _, arg := range rest {
		long, isLong := strings.CutPrefix(arg, "--")
		long, _, _ = strings.Cut(long, "=")
		switch {
		case isLong && command.Flag(long) == nil:
			return "it has no flag --" + long
		case !isLong && len(arg) == 2 && arg[0] == '-' && command.Flags().ShorthandLookup(arg[1:]) == nil:
			return "it has no flag " + arg
		case command.HasSubCommands() && arg[0] != '-':
			return "it has no command " + arg
		}
	}
	return ""
}

// isShell reports whether a block has commands. TestDocsRun runs those of "sh", and TestDocsCommands of test/deploy
// those of deploy/README.md and of "sh cluster". Nothing runs an illustration.
func isShell(language string) bool {
	return language == "sh" || language == "sh cluster" || language == "sh illustration"
}

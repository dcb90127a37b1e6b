package informd_test

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// make test and make test-long divide the tests by name. A name without a test, or a long
// test in a package that make test-long does not run, would be a test that no command runs.
func TestEveryTestRuns(t *testing.T) {
	long, core, measured := variable(t, "LONG_TESTS"), variable(t, "CORE_TESTS"), variable(t, "MEASURED_TESTS")
	packages := strings.Fields(variable(t, "LONG_PACKAGES"))
	found := map[string]bool{}
	for name, dirs := range testsByName(t) {
		for _, list := range []string{core, measured} {
			if regexp.MustCompile(list).MatchString(name) && slices.Contains(dirs, "test/e2e") {
				found[name] = true
			}
		}
		if !regexp.MustCompile(long).MatchString(name) {
			continue
		}
		found[name] = true
		for _, dir := range dirs {
			if !strings.HasPrefix(dir, "test/") && !slices.ContainsFunc(packages, func(p string) bool { return in(dir, p) }) {
				t.Errorf("%s in %s is a long test, and LONG_PACKAGES has no %s", name, dir, dir)
			}
		}
	}
	for _, name := range regexp.MustCompile(`Test\w+`).FindAllString(long+core+measured, -1) {
		if name != "TestRandom" && !found[name] {
			t.Errorf("the Makefile names %s, which does not exist", name)
		}
	}
}

// in reports whether a directory belongs to a package pattern of the go command.
func in(dir, pattern string) bool {
	root, all := strings.CutSuffix(strings.TrimPrefix(pattern, "./"), "/...")
	return dir == root || all && strings.HasPrefix(dir, root+"/")
}

// variable returns the value of a variable of the Makefile.
func variable(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile("Makefile")
	if err != nil {
		t.Fatal(err)
	}
	joined := strings.ReplaceAll(string(text), "$\\\n\t", "")
	value := regexp.MustCompile(`(?m)^` + name + ` := (.*)$`).FindStringSubmatch(joined)
	if value == nil {
		t.Fatalf("the Makefile has no %s", name)
	}
	return strings.ReplaceAll(value[1], "$$", "$")
}

// testsByName has the directories of every test, by its name.
func testsByName(t *testing.T) map[string][]string {
	t.Helper()
	all := map[string][]string{}
	err := filepath.WalkDir(".", func(path string, entry os.DirEntry, err error) error {
		if err != nil || entry.IsDir() || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		text, err := os.ReadFile(path)
		for _, m := range regexp.MustCompile(`(?m)^func (Test\w+)\(`).FindAllStringSubmatch(string(text), -1) {
			all[m[1]] = append(all[m[1]], filepath.ToSlash(filepath.Dir(path)))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

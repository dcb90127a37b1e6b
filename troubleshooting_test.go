package informd_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// sources parses the Go files of the product, without its tests.
func sources(t *testing.T) map[string]*ast.File {
	t.Helper()
	files := make(map[string]*ast.File)
	for _, tree := range []string{"cmd", "pkg", "internal"} {
		err := filepath.WalkDir(tree, func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") ||
				strings.HasSuffix(filepath.Dir(path), "test") { // suites for tests, such as sinktest
				return err
			}
			files[path], err = parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return files
}

// text returns the value of a string literal.
func text(e ast.Expr) (string, bool) {
	lit, ok := e.(*ast.BasicLit)
	if !ok || lit.Kind != token.STRING {
		return "", false
	}
	s, err := strconv.Unquote(lit.Value)
	return s, err == nil
}

// anyLevel is the level of a message whose level is a variable.
const anyLevel = "any"

// logMessages returns the literal messages that a file logs at WARN or above, and those
// whose level is a variable, with their levels.
func logMessages(file *ast.File) map[string]string {
	message := map[string]int{"Warn": 0, "Error": 0, "WarnContext": 1, "ErrorContext": 1, "Log": 2, "LogAttrs": 2}
	all := make(map[string]string)
	ast.Inspect(file, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if !ok {
			return true
		}
		method, ok := call.Fun.(*ast.SelectorExpr)
		if !ok {
			return true
		}
		at, logs := message[method.Sel.Name]
		if !logs || len(call.Args) <= at {
			return true
		}
		if at == 2 {
			if level, ok := call.Args[1].(*ast.SelectorExpr); ok && (level.Sel.Name == "LevelInfo" || level.Sel.Name == "LevelDebug") {
				return true
			}
		}
		if m, ok := text(call.Args[at]); ok {
			level := anyLevel
			if at < 2 {
				level = strings.ToUpper(strings.TrimSuffix(method.Sel.Name, "Context"))
			}
			if before, ok := all[m]; ok && before != level {
				level = anyLevel
			}
			all[m] = level
		}
		return true
	})
	return all
}

// rows returns the columns of each row of the tables below headings that start so.
func rows(t *testing.T, page, heading string) [][]string {
	t.Helper()
	var all [][]string
	for section := range strings.SplitSeq(page, "\n## ") {
		if !strings.HasPrefix(section, heading) {
			continue
		}
		for line := range strings.Lines(section) {
			line = strings.TrimSpace(line)
			if !strings.HasPrefix(line, "|") || strings.HasPrefix(line, "|---") {
				continue
			}
			columns := strings.Split(strings.Trim(line, "|"), "|")
			for i := range columns {
				columns[i] = strings.TrimSpace(columns[i])
			}
			if slices.Contains([]string{"level", "state", "alert"}, columns[0]) {
				continue
			}
			if slices.Contains(columns, "") {
				t.Errorf("an empty column: %s", line)
			}
			all = append(all, columns)
		}
	}
	if len(all) == 0 {
		t.Errorf("docs/troubleshooting.md has no table below %q", heading)
	}
	return all
}

func readPage(t *testing.T, name string) string {
	t.Helper()
	page, err := os.ReadFile(filepath.Join("docs", name))
	if err != nil {
		t.Fatal(err)
	}
	return string(page)
}

// TestTroubleshootingLogMessages: the page has one entry for each message of WARN or above
// with its level, and each entry is a text of the code.
func TestTroubleshootingLogMessages(t *testing.T) {
	logged, levels, known := make(map[string]string), make(map[string]string), make(map[string]bool)
	for path, file := range sources(t) {
		for m, level := range logMessages(file) {
			logged[m], levels[m] = path, level
		}
		ast.Inspect(file, func(n ast.Node) bool {
			if e, ok := n.(ast.Expr); ok {
				if s, ok := text(e); ok {
					known[s] = true
				}
			}
			return true
		})
	}
	if len(logged) < 50 {
		t.Fatalf("found only %d messages in the code", len(logged))
	}
	entries := make(map[string]bool)
	for _, r := range rows(t, readPage(t, "troubleshooting.md"), "Log messages") {
		if len(r) != 4 {
			t.Errorf("a row of %d columns: %q", len(r), r)
			continue
		}
		if entries[r[1]] {
			t.Errorf("two entries for %q", r[1])
		}
		entries[r[1]] = true
		if level := levels[r[1]]; level != "" && level != anyLevel && level != r[0] {
			t.Errorf("the code logs %q at %s, the page says %s", r[1], level, r[0])
		}
		if !known[r[1]] {
			t.Errorf("the entry %q is no message of the code", r[1])
		}
	}
	for _, m := range slices.Sorted(maps.Keys(logged)) {
		if !entries[m] {
			t.Errorf("%s logs %q, which has no entry in docs/troubleshooting.md", logged[m], m)
		}
	}
}

// states returns the values of the constants of type State in a package.
func states(t *testing.T, dir string) []string {
	t.Helper()
	var all []string
	for path, file := range sources(t) {
		if filepath.Dir(path) != dir {
			continue
		}
		ast.Inspect(file, func(n ast.Node) bool {
			if spec, ok := n.(*ast.ValueSpec); ok && len(spec.Values) == 1 {
				if of, ok := spec.Type.(*ast.Ident); ok && of.Name == "State" {
					if s, ok := text(spec.Values[0]); ok {
						all = append(all, "`"+s+"`")
					}
				}
			}
			return true
		})
	}
	slices.Sort(all)
	return all
}

func TestTroubleshootingStates(t *testing.T) {
	page := readPage(t, "troubleshooting.md")
	for heading, dir := range map[string]string{"States of targets": "pkg/dynwatch/internal/status", "States of sinks": "internal/deliver"} {
		var entries []string
		for _, r := range rows(t, page, heading) {
			entries = append(entries, r[0])
		}
		slices.Sort(entries)
		want := slices.DeleteFunc(states(t, dir), func(s string) bool { return s == "`ready`" }) // of a plan, not of a target
		if diff := cmp.Diff(want, entries); diff != "" {
			t.Errorf("%s (-code +page):\n%s", heading, diff)
		}
	}
}

func TestTroubleshootingAlerts(t *testing.T) {
	var entries []string
	for _, r := range rows(t, readPage(t, "troubleshooting.md"), "Alerts") {
		entries = append(entries, r[0])
	}
	want := regexp.MustCompile("`Informd[A-Za-z]+`").FindAllString(readPage(t, "metrics-and-alerts.md"), -1)
	slices.Sort(entries)
	slices.Sort(want)
	if diff := cmp.Diff(want, entries); diff != "" {
		t.Errorf("docs/troubleshooting.md against docs/metrics-and-alerts.md (-metrics +troubleshooting):\n%s", diff)
	}
}

package main

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/goccy/go-yaml"
)

// The kinds of text. Each has its own list of pending files.
const (
	kindMarkdown = "markdown" // words in Markdown
	kindLength   = "length"   // sentences in Markdown
	kindText     = "text"     // string literals in Go
	kindComment  = "comment"  // doc comments of exported names
)

// rules are the content of words.yaml.
type rules struct {
	MaxWords int                 `yaml:"maxWords"`
	Subjects []string            `yaml:"subjects"`
	Avoid    []avoided           `yaml:"avoid"`
	Skip     []string            `yaml:"skip"`
	Pending  map[string][]string `yaml:"pending"`

	subject *regexp.Regexp
}

// avoided are words that share a replacement.
type avoided struct {
	Words  []string `yaml:"words"`
	Except []string `yaml:"except"` // regular expressions; a word inside of a match is allowed
	Use    string   `yaml:"use"`

	word, except *regexp.Regexp
}

// finding is one place to correct.
type finding struct {
	kind, path string
	line       int
	message    string
}

func (f finding) String() string { return fmt.Sprintf("%s:%d: %s", f.path, f.line, f.message) }

// loadRules reads the file. Unknown keys are errors.
func loadRules(path string) (*rules, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	r := &rules{}
	if err := yaml.UnmarshalWithOptions(data, r, yaml.Strict()); err != nil {
		return nil, fmt.Errorf("read %s: %w", path, err)
	}
	for i := range r.Avoid {
		if err := r.Avoid[i].compile(); err != nil {
			return nil, fmt.Errorf("read %s: %w", path, err)
		}
	}
	for kind := range r.Pending {
		if !slices.Contains([]string{kindMarkdown, kindLength, kindText, kindComment}, kind) {
			return nil, fmt.Errorf("read %s: pending.%s is no kind of text", path, kind)
		}
	}
	if r.MaxWords == 0 {
		r.MaxWords = math.MaxInt
	}
	if len(r.Subjects) == 0 {
		return r, nil
	}
	r.subject, err = regexp.Compile(`^(?:` + strings.Join(r.Subjects, "|") + `)\b`)
	if err != nil {
		return nil, fmt.Errorf("read %s: subjects: %w", path, err)
	}
	return r, nil
}

func (a *avoided) compile() (err error) {
	phrases := make([]string, len(a.Words))
	for i, w := range a.Words {
		phrases[i] = strings.Join(strings.Fields(regexp.QuoteMeta(w)), `\s+`)
	}
	if a.word, err = regexp.Compile(`(?i)\b(?:` + strings.Join(phrases, "|") + `)\b`); err != nil {
		return err
	}
	if len(a.Except) > 0 {
		a.except, err = regexp.Compile(`(?i)(?:` + strings.Join(a.Except, "|") + `)`)
	}
	return err
}

// words reports each word to avoid in a text that begins at the line.
func (r *rules) words(kind, path string, line int, text string) []finding {
	var found []finding
	for _, a := range r.Avoid {
		var allowed [][]int
		if a.except != nil {
			allowed = a.except.FindAllStringIndex(text, -1)
		}
		for _, at := range a.word.FindAllStringIndex(text, -1) {
			if slices.ContainsFunc(allowed, func(e []int) bool { return e[0] <= at[0] && at[1] <= e[1] }) {
				continue
			}
			word := strings.Join(strings.Fields(text[at[0]:at[1]]), " ")
			found = append(found, finding{kind, path, line + strings.Count(text[:at[0]], "\n"), fmt.Sprintf("avoid %q (%s)", word, a.Use)})
		}
	}
	if r.subject == nil {
		return found
	}
	for _, s := range sentences(text) {
		if word := r.subject.FindString(s.text); word != "" && !strings.HasSuffix(s.text, "?") {
			found = append(found, finding{kind, path, line + s.line, fmt.Sprintf("avoid %q as a subject (name the thing)", word)})
		}
	}
	return found
}

// isPending reports whether the list of files that are not clean yet has the finding's.
func (r *rules) isPending(f finding) bool {
	return slices.ContainsFunc(r.Pending[f.kind], func(entry string) bool { return covers(entry, f.path) })
}

// stale returns the pending entries without a finding.
func (r *rules) stale(found []finding) []string {
	var stale []string
	for kind, entries := range r.Pending {
		for _, entry := range entries {
			if !slices.ContainsFunc(found, func(f finding) bool { return f.kind == kind && covers(entry, f.path) }) {
				stale = append(stale, kind+": "+entry)
			}
		}
	}
	slices.Sort(stale)
	return stale
}

// covers reports whether an entry is the path or, with a slash at its end, a directory
// above it.
func covers(entry, path string) bool {
	return entry == path || strings.HasSuffix(entry, "/") && strings.HasPrefix(path, entry)
}

// check reads every file below root.
func check(root string, r *rules) ([]finding, error) {
	var found []finding
	err := filepath.WalkDir(root, func(path string, d os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		name = filepath.ToSlash(name)
		if slices.ContainsFunc(r.Skip, func(entry string) bool { return covers(entry, name) || d.IsDir() && covers(entry, name+"/") }) {
			if d.IsDir() {
				return filepath.SkipDir
			}
			return nil
		}
		if d.IsDir() {
			return nil
		}
		more, err := checkFile(path, name, r)
		found = append(found, more...)
		return err
	})
	return found, err
}

// checkFile checks a file by its suffix.
func checkFile(path, name string, r *rules) ([]finding, error) {
	markdown := strings.HasSuffix(name, ".md")
	if !markdown && (!strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go")) {
		return nil, nil
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	if markdown {
		return r.markdown(name, string(data)), nil
	}
	return r.source(name, data)
}

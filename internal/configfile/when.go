package configfile

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/informd/informd/internal/config"
	"github.com/informd/informd/internal/display"
	"github.com/informd/informd/internal/when"
)

// checkWhen compiles the expression of a match, and checks what goes with it.
func (r *checker) checkWhen(m *config.Match, path string, meant []entry) {
	onError := path + ".onConditionError"
	path += ".condition"
	r.refuse(r.given(onError) && !r.given(path) && !r.Bad(path), onError, "needs a condition: add condition, or remove onConditionError")
	if !r.given(path) || r.Bad(path) {
		return
	}
	if r.when == nil {
		compiler, err := when.NewCompiler()
		if err != nil {
			r.fail(path, "cannot be checked; report this as a bug: %v", err)
			return
		}
		r.when = compiler
	}
	x, mistakes := r.when.Compile(m.Condition)
	if x != nil {
		m.When = x
		r.checkReads(*m, x, path, meant)
	}
	for _, one := range mistakes {
		at, message := r.inExpression(m.Condition, path, one.Line, one.Col, one.Message)
		if one.Unknown != "" {
			message += cmp.Or(display.DidYouMean(one.Unknown, one.Known), " (one of: "+strings.Join(one.Expected, ", ")+")")
		}
		r.Add(at, path, "%s", message)
	}
}

// inExpression returns where in the file a place of an expression is, and what is to be
// said about it; the place itself, if the file does not show it.
func (r *checker) inExpression(text, path string, line, col int, message string) (config.Pos, string) {
	at, ok := r.inside(r.place(path), text, line, col)
	if !ok {
		message = fmt.Sprintf("at %d:%d of the expression: %s", line, col, message)
	}
	return at, message
}

// inside returns where in the file a place of a text is that stands at a place of the
// file, in quotes, plain or as a block. It is not ok if the file writes the text in a
// way that is not followed here, with \n or \x41 for one.
func (r *checker) inside(at config.Pos, text string, line, col int) (config.Pos, bool) {
	before, ok := upTo(text, line, col)
	if !ok {
		return at, false
	}
	lines := slices.Clone(r.Lines[at.Line-1:])
	lines = lines[:min(len(lines), len(text)+2)] // each holds a character of it, its break at least
	lines[0] = string([]rune(lines[0])[at.Col-1:])
	begin := ""
	switch c := lines[0][:min(1, len(lines[0]))]; c {
	case "|", ">":
		begin = `[^\n]*\s*`
	case "'":
		begin, before = c, strings.ReplaceAll(before, "'", "''")
	case `"`:
		begin, before = c, strings.NewReplacer(`"`, `\"`, `\`, `\\`).Replace(before)
	}
	// A line that is folded or indented has other white space in the file.
	written := "^" + begin + whiteSpace.ReplaceAllLiteralString(regexp.QuoteMeta(before), `\s+`)
	pattern, err := regexp.Compile(written)
	if err != nil {
		return at, false // it is too long
	}
	found := pattern.FindStringIndex(strings.Join(lines, "\n"))
	if found == nil {
		return at, false
	}
	passed := strings.Split(strings.Join(lines, "\n")[:found[1]], "\n")
	last := len(passed) - 1
	if last > 0 {
		at.Col = 1
	}
	return config.Pos{Line: at.Line + last, Col: at.Col + utf8.RuneCountInString(passed[last])}, true
}

var whiteSpace = regexp.MustCompile(`\s+`)

// upTo returns what is before a place in a text, if it is one; its end is one, too.
func upTo(text string, line, col int) (before string, ok bool) {
	lines := strings.SplitAfter(text, "\n")
	if line > len(lines) || col > utf8.RuneCountInString(lines[line-1])+1 {
		return "", false
	}
	return strings.Join(lines[:line-1], "") + string([]rune(lines[line-1])[:col-1]), true
}

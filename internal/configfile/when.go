package configfile

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/informd/informd/internal/config"
	"github.com/informd/informd/internal/spelling"
	"github.com/informd/informd/internal/when"
)

// checkWhen checks the expression of a match and what goes with it.
func (r *checker) checkWhen(m config.Match, path string, resources []config.Resource) {
	if at := path + ".onConditionError"; m.Condition == "" && r.given(at) && !r.Bad(at) && !r.Bad(path+".condition") && !r.given(path+".condition") {
		r.fail(at, "needs a condition: add condition, or remove onConditionError")
	}
	if path += ".condition"; !r.given(path) || r.Bad(path) {
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
		r.checkOld(m, x, path, resources)
		r.checkCuts(m, x, path, resources)
	}
	for _, one := range mistakes {
		at, message := r.inExpression(m.Condition, path, one.Line, one.Col, one.Message)
		if one.Unknown != "" {
			message += cmp.Or(spelling.DidYouMean(one.Unknown, one.Known), " (one of: "+strings.Join(one.Expected, ", ")+")")
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
	lines := r.Lines[at.Line-1:]
	lines = lines[:min(len(lines), len(text)+2)] // each holds a character of it, its break at least
	file := []rune(strings.Join(lines, "\n"))
	w := &writing{file: file, pos: config.Pos{Line: at.Line, Col: 1}}
	for range at.Col - 1 {
		w.step()
	}
	w.open()
	seen := config.Pos{Line: 1, Col: 1}
	for _, c := range text {
		w.margin()
		if seen == (config.Pos{Line: line, Col: col}) {
			return w.pos, !w.lost
		}
		w.read(c)
		seen.Col++
		if c == '\n' {
			seen = config.Pos{Line: seen.Line + 1, Col: 1}
		}
	}
	if seen == (config.Pos{Line: line, Col: col}) {
		return w.pos, !w.lost // its end
	}
	return at, false
}

// writing follows a text through the way YAML writes it.
type writing struct {
	file []rune
	pos  config.Pos // of file[0]
	// quote is that around the text, 0 if there is none; block says that it is a
	// literal or folded one, whose lines are indented by indent.
	quote  rune
	block  bool
	indent int
	lost   bool // what is written is not the text
}

func (w *writing) next() rune {
	if len(w.file) == 0 {
		return -1
	}
	return w.file[0]
}

func (w *writing) step() {
	switch w.next() {
	case -1:
		return
	case '\n':
		w.pos = config.Pos{Line: w.pos.Line + 1, Col: 1}
	default:
		w.pos.Col++
	}
	w.file = w.file[1:]
}

// open goes to the first character of the text.
func (w *writing) open() {
	switch c := w.next(); c {
	case '\'', '"':
		w.quote = c
		w.step()
	case '|', '>':
		w.block = true
		w.line()
		for _, c := range w.file {
			if c != ' ' {
				break
			}
			w.indent++
		}
	}
}

// line goes to the beginning of the next line.
func (w *writing) line() {
	for w.next() != '\n' && w.next() != -1 {
		w.step()
	}
	w.step()
}

// margin goes over what is before a line of a text.
func (w *writing) margin() {
	if w.pos.Col > 1 {
		return
	}
	for n := 0; w.next() == ' ' && (!w.block || n < w.indent); n++ {
		w.step()
	}
}

// read goes over one character of the text.
func (w *writing) read(c rune) {
	if w.quote == '"' && w.next() == '\\' || w.quote == '\'' && w.next() == '\'' {
		w.step() // an escape
		w.lost = w.lost || w.next() != c
		w.step()
		return
	}
	switch {
	case w.next() == c:
		w.step()
	case c == ' ' && w.next() == '\n': // folded
		w.step()
	default:
		w.lost = true
	}
}

package config

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Error is one mistake.
type Error struct {
	// File is the config file; or the flag ("--log-level") or environment
	// variable that the value came from.
	File string
	// Line and Col are the place in the file, from 1; 0 if it has none.
	Line, Col int
	// Key is the path of the key, "resources[2].version"; empty if the mistake
	// has no key.
	Key string
	// Msg says what is wrong and what to do. It never holds a secret.
	Msg string
}

// Error renders it as "file:line:col: key: message", on one line.
func (e Error) Error() string {
	var b strings.Builder
	b.WriteString(e.File)
	if e.Line > 0 {
		fmt.Fprintf(&b, ":%d:%d", e.Line, e.Col)
	}
	b.WriteString(": ")
	if e.Key != "" {
		b.WriteString(e.Key + ": ")
	}
	b.WriteString(e.Msg)
	return b.String()
}

// Errors is every mistake of a config, by place in the file; mistakes without a
// place come first. It is never empty.
type Errors []Error

// Error renders one mistake per line.
func (e Errors) Error() string {
	lines := make([]string, len(e))
	for i, one := range e {
		lines[i] = one.Error()
	}
	return strings.Join(lines, "\n")
}

// maxErrors bounds what a hostile file can make us print.
const maxErrors = 1000

// problems collects mistakes.
type problems struct {
	file string
	list Errors
	// warnings are about what is allowed.
	warnings Errors
	// failed has every key that has a mistake (true) or has one further in (false).
	failed map[string]bool
}

// add notes a mistake at a place in the file.
func (p *problems) add(at Pos, key, format string, args ...any) {
	p.note(Error{File: p.file, Line: at.Line, Col: at.Col, Key: key, Msg: fmt.Sprintf(format, args...)})
}

// addFrom notes a mistake in what a flag or environment variable says.
func (p *problems) addFrom(origin, key, format string, args ...any) {
	p.note(Error{File: origin, Key: key, Msg: fmt.Sprintf(format, args...)})
}

// warn notes what is allowed at a place in the file, and probably not meant.
func (p *problems) warn(at Pos, key, format string, args ...any) {
	p.warnings = append(p.warnings, Error{File: p.file, Line: at.Line, Col: at.Col, Key: key, Msg: oneLine(fmt.Sprintf(format, args...))})
}

func (p *problems) note(e Error) {
	e.Msg = oneLine(e.Msg)
	p.list = append(p.list, e)
	p.suppress(e.Key)
	for k := parent(e.Key); k != ""; k = parent(k) {
		if _, ok := p.failed[k]; !ok {
			p.failed[k] = false
		}
	}
}

// suppress makes key count as one that has a mistake.
func (p *problems) suppress(key string) { p.failed[key] = true }

// bad reports whether key, something in it or something it is in has a mistake
// already, so that what follows from a mistake is not reported as another.
func (p *problems) bad(key string) bool {
	if _, ok := p.failed[key]; ok {
		return true
	}
	for k := parent(key); k != ""; k = parent(k) {
		if p.failed[k] {
			return true
		}
	}
	return false
}

// parent cuts the last step off a key path: "a.b[2].c" -> "a.b[2]" -> "a.b".
func parent(key string) string { return key[:max(0, strings.LastIndexAny(key, ".["))] }

// err returns the mistakes in order, or nil. One mistake that several aliases
// lead to is told once.
func (p *problems) err() error {
	if len(p.list) == 0 {
		return nil
	}
	list := inOrder(p.list)
	if more := len(list) - maxErrors; more > 0 {
		list = append(list[:maxErrors], Error{File: p.file, Msg: fmt.Sprintf("and %d more mistakes", more)})
	}
	return list
}

// inOrder sorts by place, and leaves out what is told of one place twice.
func inOrder(list Errors) Errors {
	list = slices.Clone(list)
	slices.SortStableFunc(list, func(a, b Error) int {
		return cmp.Or(
			cmp.Compare(a.Line, b.Line),
			cmp.Compare(a.Col, b.Col),
			cmp.Compare(a.Key, b.Key),
			cmp.Compare(a.Msg, b.Msg),
		)
	})
	return slices.CompactFunc(list, func(a, b Error) bool {
		return a.Line > 0 && a.Line == b.Line && a.Col == b.Col && a.Msg == b.Msg
	})
}

const (
	maxQuoted  = 80  // bytes of the user's text that a message repeats
	maxMessage = 400 // bytes of a message
)

// quote makes the user's text fit for a message: short, on one line, printable.
func quote(text string) string {
	if len(text) > maxQuoted {
		return strconv.Quote(strings.ToValidUTF8(text[:maxQuoted], "")) + "..."
	}
	return strconv.Quote(text)
}

// oneLine does the same to a whole message, parts of which other packages may
// have made of the user's text.
func oneLine(message string) string {
	message = strings.Map(func(r rune) rune {
		if !strconv.IsPrint(r) {
			return ' '
		}
		return r
	}, message)
	if len(message) > maxMessage {
		return strings.ToValidUTF8(message[:maxMessage], "") + "..."
	}
	return message
}

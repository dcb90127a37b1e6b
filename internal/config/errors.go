package config

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Pos is a place in the config file: line and column (in characters) from 1.
type Pos struct{ Line, Col int }

// Error is one mistake.
type Error struct {
	// File is the config file, or the flag ("--log-level") or environment
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

// MaxErrors bounds the errors of a hostile file.
const MaxErrors = 1000

// Problems collects mistakes.
type Problems struct {
	// File is the config file.
	File string
	// List has the mistakes, Warnings the values that are allowed and probably not intended.
	List, Warnings Errors
	// Failed has every key with a mistake (true), or with one in a key below it (false).
	Failed map[string]bool
}

// NewProblems returns the problems of a file, none yet.
func NewProblems(file string) Problems { return Problems{File: file, Failed: map[string]bool{}} }

// Add notes a mistake at a place in the file.
func (p *Problems) Add(at Pos, key, format string, args ...any) {
	p.note(Error{File: p.File, Line: at.Line, Col: at.Col, Key: key, Msg: fmt.Sprintf(format, args...)})
}

// AddFrom notes a mistake in what a flag or environment variable says.
func (p *Problems) AddFrom(origin, key, format string, args ...any) {
	p.note(Error{File: origin, Key: key, Msg: fmt.Sprintf(format, args...)})
}

// Warn notes a value that is allowed and probably not intended, at a place in the file.
func (p *Problems) Warn(at Pos, key, format string, args ...any) {
	p.Warnings = append(p.Warnings, Error{File: p.File, Line: at.Line, Col: at.Col, Key: key, Msg: OneLine(fmt.Sprintf(format, args...))})
}

func (p *Problems) note(e Error) {
	e.Msg = OneLine(e.Msg)
	p.List = append(p.List, e)
	p.Suppress(e.Key)
	for k := Parent(e.Key); k != ""; k = Parent(k) {
		if _, ok := p.Failed[k]; !ok {
			p.Failed[k] = false
		}
	}
}

// Suppress makes key count as one with a mistake.
func (p *Problems) Suppress(key string) { p.Failed[key] = true }

// Bad reports whether key, a key in it or a key around it has a mistake already, so that the
// consequences of a mistake are not reported as further ones.
func (p *Problems) Bad(key string) bool {
	if _, ok := p.Failed[key]; ok {
		return true
	}
	for k := Parent(key); k != ""; k = Parent(k) {
		if p.Failed[k] {
			return true
		}
	}
	return false
}

// Parent cuts the last step off a key path: "a.b[2].c" -> "a.b[2]" -> "a.b".
func Parent(key string) string { return key[:max(0, strings.LastIndexAny(key, ".["))] }

// Err returns the mistakes in order, or nil. A mistake that several aliases refer to is reported
// once.
func (p *Problems) Err() error {
	if len(p.List) == 0 {
		return nil
	}
	list := InOrder(p.List)
	if more := len(list) - MaxErrors; more > 0 {
		list = append(list[:MaxErrors], Error{File: p.File, Msg: fmt.Sprintf("and %d more mistakes", more)})
	}
	return list
}

// InOrder sorts by place, and leaves out repetitions.
func InOrder(list Errors) Errors {
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

// Quote makes a text of the user short, printable and one line, for a message.
func Quote(text string) string {
	if len(text) > maxQuoted {
		return strconv.Quote(strings.ToValidUTF8(text[:maxQuoted], "")) + "..."
	}
	return strconv.Quote(text)
}

// OneLine does the same to a whole message, because other packages may have put text of the
// user into it.
func OneLine(message string) string {
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

// Index appends an index to a path.
func Index(path string, i int) string { return path + "[" + strconv.Itoa(i) + "]" }

// Join appends a key to a path. Keys are the user's, so odd ones are quoted.
func Join(path, key string) string {
	odd := func(c rune) bool { return c <= ' ' || c > '~' || strings.ContainsRune(`."[]:`, c) }
	if key == "" || len(key) > maxQuoted || strings.ContainsFunc(key, odd) {
		key = Quote(key)
	}
	if path == "" {
		return key
	}
	return path + "." + key
}

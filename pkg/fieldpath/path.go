package fieldpath

import (
	"encoding/json"
	"fmt"
	"strings"
	"unicode/utf8"
)

// Path names values inside a JSON object. The zero value names none.
type Path struct{ steps []step }

// step is one step down: into the member of a key, into every member, or into every
// element.
type step struct {
	kind stepKind
	key  string // of a named one
}

type stepKind uint8

const (
	named stepKind = iota
	anyKey
	element
)

// SyntaxError says where and why a text is no path.
type SyntaxError struct {
	// At is the place in the text, in characters from 1.
	At     int
	Reason string
}

// Error says what is wrong, and where.
func (e *SyntaxError) Error() string { return fmt.Sprintf("at character %d: %s", e.At, e.Reason) }

// Parse reads a path, as the package's comment has them. The error is always a
// [*SyntaxError].
func Parse(text string) (Path, error) {
	p := parser{text: text}
	for first := true; first || p.at < len(text); first = false {
		if err := p.next(first); err != nil {
			return Path{}, err
		}
	}
	return Path{p.steps}, nil
}

// String returns the path in its usual form, which [Parse] reads.
func (p Path) String() string {
	var text []byte
	for _, s := range p.steps {
		switch s.kind {
		case element:
			text = AppendElement(text)
		case anyKey:
			text = append(appendDot(text), '*')
		default:
			text = AppendKey(text, s.key)
		}
	}
	return string(text)
}

// Keys are the keys of the path, up to the first step that is none.
func (p Path) Keys() (keys []string) {
	for _, s := range p.steps {
		if s.kind != named {
			break
		}
		keys = append(keys, s.key)
	}
	return keys
}

// AppendKey appends one step to the text of a path, into the member of the key.
func AppendKey(path []byte, key string) []byte {
	if key == "" || strings.ContainsFunc(key, func(c rune) bool { return !bare(c) }) {
		return append(append(append(path, '['), quoted(key)...), ']')
	}
	return append(appendDot(path), key...)
}

// AppendElement appends one step to the text of a path, into every element.
func AppendElement(path []byte) []byte { return append(path, "[]"...) }

func appendDot(path []byte) []byte {
	if len(path) == 0 {
		return path
	}
	return append(path, '.')
}

// quoted returns a key as a JSON string.
func quoted(key string) string {
	text, _ := json.Marshal(key) //nolint:errchkjson // a string always marshals
	return string(text)
}

// bare reports whether a key may have the character without quotes.
func bare(c rune) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c == '_' || c == '-' || c == '$'
}

type parser struct {
	text  string
	at    int // what is before it has been read
	steps []step
}

func (p *parser) fail(at int, reason string) error {
	return &SyntaxError{At: utf8.RuneCountInString(p.text[:at]) + 1, Reason: reason}
}

// next reads one step with the dot before it.
func (p *parser) next(first bool) error {
	rest := p.text[p.at:]
	switch {
	case first && rest == "":
		return p.fail(0, "the path is empty")
	case first && rest[0] == '.':
		return p.fail(0, "a path begins with a key: remove the dot")
	case first && rest[0] == '/':
		return p.fail(0, "keys are joined by dots, as in spec.template")
	case first && strings.HasPrefix(rest, "$."):
		return p.fail(0, "a path begins with a key: remove $.")
	case first && rest[0] == '[' && !strings.HasPrefix(rest, `["`):
		return p.fail(0, "a path begins with a key: an object is no array")
	case first && rest[0] != '[', !first && rest[0] == '.':
		if !first {
			p.at++
		}
		return p.plain()
	case rest[0] == '[':
		return p.brackets()
	}
	return p.fail(p.at, fmt.Sprintf("%s cannot stand here: a key with it goes in brackets and quotes, as in %s", p.sign(), `["a/b"]`))
}

// sign is the character that is next, for a message.
func (p *parser) sign() string {
	for _, c := range p.text[p.at:] {
		return fmt.Sprintf("%q", c)
	}
	return "the end"
}

// plain reads a key without quotes, or a star.
func (p *parser) plain() error {
	rest := p.text[p.at:]
	if strings.HasPrefix(rest, "*") {
		p.at++
		p.steps = append(p.steps, step{kind: anyKey})
		if len(rest) > 1 && bare(rune(rest[1])) {
			return p.fail(p.at, "* stands for a whole key, not for a part of one")
		}
		return nil
	}
	n := strings.IndexFunc(rest, func(c rune) bool { return !bare(c) })
	if n < 0 {
		n = len(rest)
	}
	switch {
	case n > 0:
	case rest == "":
		return p.fail(p.at, "a key is missing behind the dot")
	case rest[0] == '.':
		return p.fail(p.at, "a key is missing between two dots")
	case rest[0] == '[':
		return p.fail(p.at, "no dot goes before a bracket")
	default:
		return p.fail(p.at, fmt.Sprintf("a key with %s goes in brackets and quotes, as in %s", p.sign(), `["a/b"]`))
	}
	if n < len(rest) && rest[n] == '*' {
		return p.fail(p.at+n, "* stands for a whole key, not for a part of one")
	}
	p.at += n
	p.steps = append(p.steps, step{key: rest[:n]})
	return nil
}

// brackets reads [] or a key in brackets and quotes.
func (p *parser) brackets() error {
	rest := p.text[p.at:]
	if strings.HasPrefix(rest, "[]") {
		p.at += len("[]")
		p.steps = append(p.steps, step{kind: element})
		return nil
	}
	if !strings.HasPrefix(rest, `["`) {
		return p.fail(p.at, `in brackets there is nothing, for every element, or a key in double quotes, as in ["a/b"]`)
	}
	end := 2
	for end < len(rest) && rest[end] != '"' {
		if rest[end] == '\\' {
			end++
		}
		end++
	}
	if end >= len(rest) {
		return p.fail(p.at+1, "the quotes have no end")
	}
	var key string
	if err := json.Unmarshal([]byte(rest[1:end+1]), &key); err != nil {
		return p.fail(p.at+1, "what is in quotes is not a JSON string")
	}
	if !strings.HasPrefix(rest[end+1:], "]") {
		return p.fail(p.at+end+1, "a closing bracket is missing behind the quotes")
	}
	p.at += end + len(`"]`)
	p.steps = append(p.steps, step{key: key})
	return nil
}

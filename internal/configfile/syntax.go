package configfile

import (
	"bytes"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/lexer"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"

	"github.com/informd/informd/internal/config"
)

// The limits of a config. The parser's time grows with the square of the
// tokens, so they are bounded before it sees them; a real
// config has about ten tokens per resource.
const (
	// maxFileBytes is the capacity of a ConfigMap.
	maxFileBytes = 1 << 20
	maxTokens    = 30_000
	maxDepth     = 50
)

// document is the text of a config, and the problems that were found in it.
type document struct {
	config.Problems
	widths []int // of the lines, in characters
	// Lines are the lines of the file.
	Lines []string
}

// parse parses body up to the one YAML document in it. It returns nil if it
// noted a problem: what does not parse cannot be checked any further.
func (d *document) parse(body []byte) ast.Node {
	text, ok := d.decode(body)
	if !ok {
		return nil
	}
	tokens := lexer.Tokenize(text)
	if len(tokens) > maxTokens {
		d.Add(fileStart(), "", "the file is too large: more than %d words and signs", maxTokens)
		return nil
	}
	file, err := parseTokens(tokens)
	if err != nil {
		at, message := explainSyntax(err, tokens)
		d.Add(d.clamp(at), "", "%s", message)
		return nil
	}
	return d.onlyDocument(file)
}

// decode checks the encoding and returns the text with "\n" at every line's end.
func (d *document) decode(body []byte) (string, bool) {
	if len(body) > maxFileBytes {
		d.Add(fileStart(), "", "a config of more than %d bytes", maxFileBytes)
		return "", false
	}
	if bytes.HasPrefix(body, []byte{0xff, 0xfe}) || bytes.HasPrefix(body, []byte{0xfe, 0xff}) {
		d.Add(fileStart(), "", "the file is in UTF-16: save it as UTF-8")
		return "", false
	}
	text := string(bytes.TrimPrefix(body, []byte("\ufeff")))
	text = strings.NewReplacer("\r\n", "\n", "\r", "\n").Replace(text)
	d.Lines = strings.Split(text, "\n")
	for i, line := range d.Lines {
		d.widths = append(d.widths, utf8.RuneCountInString(line))
		column := 0
		for j, c := range line {
			column++
			_, size := utf8.DecodeRuneInString(line[j:])
			switch {
			case c == utf8.RuneError && size == 1:
				d.Add(config.Pos{Line: i + 1, Col: column}, "", "byte %#x is not UTF-8", line[j])
				return "", false
			case c < ' ' && c != '\t', c == 0x7f:
				d.Add(config.Pos{Line: i + 1, Col: column}, "", "control character %U", c)
				return "", false
			}
		}
	}
	return text, true
}

// parseTokens is the parser with its panics turned into errors: it has a record
// of them, and a config must never end a running informd.
func parseTokens(tokens token.Tokens) (file *ast.File, err error) {
	defer func() {
		if p := recover(); p != nil {
			file, err = nil, fmt.Errorf("the parser gave up: %v", p)
		}
	}()
	// Duplicate keys are ours to report: the parser would stop at the first.
	return parser.Parse(tokens, 0, parser.AllowDuplicateMapKey())
}

// onlyDocument returns the body of the one document.
func (d *document) onlyDocument(file *ast.File) ast.Node {
	var body ast.Node
	for _, doc := range file.Docs {
		if doc.Body == nil || doc.Body.Type() == ast.DirectiveType {
			continue
		}
		if body != nil {
			d.Add(d.begin(doc.Body), "", "a second YAML document: a config is one; merge it into the first and remove the ---")
			return nil
		}
		body = doc.Body
	}
	if body == nil {
		d.Add(fileStart(), "", "the file is empty: it needs at least one entry of resources and one of sinks")
	}
	return body
}

// begin is where the text of a node begins.
func (d *document) begin(n ast.Node) config.Pos {
	switch n := n.(type) {
	case *ast.MappingNode:
		// The token of a mapping without braces is the first colon.
		if !n.IsFlowStyle && len(n.Values) > 0 {
			return d.begin(n.Values[0].Key)
		}
	case *ast.MappingValueNode:
		return d.begin(n.Key)
	default:
	}
	return d.clamp(position(n.GetToken()))
}

// fileStart is where mistakes of the file as a whole are.
func fileStart() config.Pos { return config.Pos{Line: 1, Col: 1} }

func position(t *token.Token) config.Pos {
	if t == nil || t.Position == nil {
		return fileStart()
	}
	return config.Pos{Line: t.Position.Line, Col: t.Position.Column}
}

// clamp keeps a place inside the file: the parser may be off by some for what
// spans lines or ends the file.
func (d *document) clamp(at config.Pos) config.Pos {
	line := min(max(at.Line, 1), len(d.widths))
	return config.Pos{Line: line, Col: min(max(at.Col, 1), d.widths[line-1]+1)}
}

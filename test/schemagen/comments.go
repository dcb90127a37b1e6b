package schemagen

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strconv"
	"strings"
)

// module is what the import paths of the repository's packages begin with.
const module = "github.com/informd/informd"

// comments finds what the source says about the fields of structs.
type comments struct {
	root     string
	packages map[string]*source // by import path
	err      error              // the first there was
}

// source is what is known of one package.
type source struct {
	structs   map[string]*ast.StructType
	docs      map[string]string // of types, by name
	constants map[string]string // texts, by name
}

func newComments(root string) *comments {
	return &comments{root: root, packages: map[string]*source{}}
}

// of returns what the source says about a field of a struct, in the words of the
// config file: keys for fields and values for constants. A field without a comment
// right below another one shares that one's; a struct in it has its own.
func (c *comments) of(t reflect.Type, field string) string {
	p := c.source(t.PkgPath())
	if p == nil || p.structs[t.Name()] == nil {
		return ""
	}
	text := p.comment(t.Name(), field)
	if text == "" {
		if f, ok := t.FieldByName(field); ok && f.Type.Kind() == reflect.Struct {
			if of := c.source(f.Type.PkgPath()); of != nil {
				text = of.docs[f.Type.Name()]
			}
		}
	}
	return p.reword(text, t)
}

// comment is that of a field, or of the one that it stands right below of.
func (p *source) comment(name, field string) string {
	text, end := "", 0
	for _, f := range p.structs[name].Fields.List {
		switch {
		case f.Doc != nil:
			text = f.Doc.Text()
		case int(f.Pos()) > end+2 || len(f.Names) == 0: // beyond the newline and a tab
			text = ""
		}
		end = int(f.End())
		for _, known := range f.Names {
			if known.Name == field {
				return mentions(text, field, f.Doc != nil)
			}
		}
	}
	return ""
}

// mentions returns a comment for a field that it is about: its own, or that of an
// earlier one which names it.
func mentions(text, field string, own bool) string {
	if own || regexp.MustCompile(`\b`+field+`\b`).MatchString(text) {
		return text
	}
	return ""
}

// reword turns a Go comment into a description of a key.
func (p *source) reword(text string, t reflect.Type) string {
	link, word := regexp.MustCompile(`\[([A-Za-z.]+)\]`), regexp.MustCompile(`\b[A-Z][A-Za-z]+\b`)
	text = strings.Join(strings.Fields(text), " ")
	text = link.ReplaceAllStringFunc(text, func(found string) string {
		name := strings.Trim(found, "[]")
		if value, ok := p.constants[name]; ok {
			return strconv.Quote(value)
		}
		return name
	})
	keys := keysOf(t)
	begins := true
	return word.ReplaceAllStringFunc(text, func(found string) string {
		key, ok := keys[found]
		// Further on URL and TLS are what they are everywhere.
		abbreviated := found == strings.ToUpper(found) && !begins
		begins = false
		if !ok || abbreviated {
			return found
		}
		return key
	})
}

// keysOf maps the names of a struct's fields to their keys.
func keysOf(t reflect.Type) map[string]string {
	keys := map[string]string{}
	for _, f := range reflect.VisibleFields(t) {
		if key, _, _ := strings.Cut(f.Tag.Get("yaml"), ","); key != "" && key != "-" {
			keys[f.Name] = key
		}
	}
	return keys
}

// source reads a package of the repository; it is nil for any other.
func (c *comments) source(importPath string) *source {
	rest, ours := strings.CutPrefix(importPath, module+"/")
	if !ours {
		return nil
	}
	if p, known := c.packages[importPath]; known {
		return p
	}
	p := &source{structs: map[string]*ast.StructType{}, docs: map[string]string{}, constants: map[string]string{}}
	c.packages[importPath] = p
	files, err := filepath.Glob(filepath.Join(c.root, filepath.FromSlash(rest), "*.go"))
	if err == nil && len(files) == 0 {
		err = os.ErrNotExist
	}
	for _, file := range files {
		if err != nil || strings.HasSuffix(file, "_test.go") {
			continue
		}
		var parsed *ast.File
		if parsed, err = parser.ParseFile(token.NewFileSet(), file, nil, parser.ParseComments); err == nil {
			p.read(parsed)
		}
	}
	if err != nil && c.err == nil {
		c.err = fmt.Errorf("read the source of %s below %s: %w", importPath, c.root, err)
	}
	return p
}

// read notes the structs and the constants of a file.
func (p *source) read(file *ast.File) {
	for _, declared := range file.Decls {
		group, ok := declared.(*ast.GenDecl)
		if !ok {
			continue
		}
		for _, spec := range group.Specs {
			switch spec := spec.(type) {
			case *ast.TypeSpec:
				if s, ok := spec.Type.(*ast.StructType); ok {
					p.structs[spec.Name.Name], p.docs[spec.Name.Name] = s, group.Doc.Text()
				}
			case *ast.ValueSpec:
				p.constant(spec)
			}
		}
	}
}

func (p *source) constant(spec *ast.ValueSpec) {
	for i, name := range spec.Names {
		if i >= len(spec.Values) {
			return
		}
		if literal, ok := spec.Values[i].(*ast.BasicLit); ok && literal.Kind == token.STRING {
			if text, err := strconv.Unquote(literal.Value); err == nil {
				p.constants[name.Name] = text
			}
		}
	}
}

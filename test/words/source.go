package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"regexp"
	"strconv"
	"strings"
)

// source checks a Go file: the string literals with a space in them, and the doc
// comments of exported names.
func (r *rules) source(path string, data []byte) ([]finding, error) {
	files := token.NewFileSet()
	file, err := parser.ParseFile(files, path, data, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	if ast.IsGenerated(file) {
		return nil, nil
	}
	var found []finding
	code := regexp.MustCompile("`[^`]*`")
	report := func(kind string, at token.Pos, text string) {
		text = code.ReplaceAllStringFunc(text, func(s string) string { return "code" + strings.Repeat("\n", strings.Count(s, "\n")) })
		found = append(found, r.words(kind, path, files.Position(at).Line, text)...)
	}
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.ImportSpec:
			return false
		case *ast.BasicLit:
			if text, err := strconv.Unquote(n.Value); n.Kind == token.STRING && err == nil && strings.Contains(text, " ") {
				report(kindText, n.Pos(), text)
			}
		}
		return true
	})
	for _, doc := range docs(file) {
		report(kindComment, doc.Pos(), withoutName(doc.Text()))
	}
	return found, nil
}

// withoutName removes the name with which a doc comment begins, and links to names.
func withoutName(text string) string {
	name, rest, _ := strings.Cut(text, " ")
	if strings.ToLower(name) != name && name != "What" && name != "Who" && name != "Whoever" {
		text = "It " + rest
	}
	return regexp.MustCompile(`\[[A-Za-z.]+\]`).ReplaceAllString(text, "It")
}

// docs returns the doc comments of the package and of its exported names: functions,
// methods, types, values, fields.
func docs(file *ast.File) []*ast.CommentGroup {
	var all []*ast.CommentGroup
	add := func(doc *ast.CommentGroup) {
		if doc != nil {
			all = append(all, doc)
		}
	}
	add(file.Doc)
	for _, d := range file.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			if d.Name.IsExported() && receiverExported(d) {
				add(d.Doc)
			}
		case *ast.GenDecl:
			if anyExported(d) {
				add(d.Doc)
			}
			for _, spec := range d.Specs {
				specDocs(spec, add)
			}
		}
	}
	return all
}

// specDocs adds the doc comments of a type with its fields, or of a value.
func specDocs(spec ast.Spec, add func(*ast.CommentGroup)) {
	switch spec := spec.(type) {
	case *ast.ValueSpec:
		if spec.Names[0].IsExported() {
			add(spec.Doc)
			add(spec.Comment)
		}
	case *ast.TypeSpec:
		if !spec.Name.IsExported() {
			return
		}
		add(spec.Doc)
		ast.Inspect(spec.Type, func(n ast.Node) bool {
			if f, ok := n.(*ast.Field); ok && len(f.Names) > 0 && f.Names[0].IsExported() {
				add(f.Doc)
				add(f.Comment)
			}
			return true
		})
	}
}

// receiverExported reports whether a function is no method, or one of an exported type.
func receiverExported(d *ast.FuncDecl) bool {
	if d.Recv == nil {
		return true
	}
	exported := false
	ast.Inspect(d.Recv, func(n ast.Node) bool {
		if field, ok := n.(*ast.Field); ok {
			ast.Inspect(field.Type, func(n ast.Node) bool {
				if id, ok := n.(*ast.Ident); ok {
					exported = exported || id.IsExported()
				}
				return true
			})
		}
		return true
	})
	return exported
}

func anyExported(d *ast.GenDecl) bool {
	for _, spec := range d.Specs {
		switch spec := spec.(type) {
		case *ast.TypeSpec:
			if spec.Name.IsExported() {
				return true
			}
		case *ast.ValueSpec:
			if spec.Names[0].IsExported() {
				return true
			}
		}
	}
	return false
}

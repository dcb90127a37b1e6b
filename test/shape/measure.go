package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// layout is what measure counts below a directory.
type layout struct {
	lines, comments, files int
	packages               map[string]*pack
	methods, fields, funcs []row
	repeats                []row
}

// pack is a package, by its directory.
type pack struct{ lines, files int }

// rank returns one measure of every package.
func (l *layout) rank(of func(*pack) int) []row {
	rows := make([]row, 0, len(l.packages))
	for _, dir := range slices.Sorted(maps.Keys(l.packages)) {
		rows = append(rows, row{dir, of(l.packages[dir])})
	}
	return rows
}

// measure reads the product's Go files below root: those of cmd, internal and pkg that are
// neither tests nor generated.
func measure(root string) (*layout, error) {
	l := &layout{packages: map[string]*pack{}}
	methods, runs := map[string]int{}, repeats{}
	for _, tree := range []string{"cmd", "internal", "pkg"} {
		err := filepath.WalkDir(filepath.Join(root, tree), func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			name, err := filepath.Rel(root, path)
			if err != nil {
				return err
			}
			return l.file(path, filepath.ToSlash(name), methods, runs)
		})
		if err != nil {
			return nil, err
		}
	}
	for _, name := range slices.Sorted(maps.Keys(methods)) {
		l.methods = append(l.methods, row{name, methods[name]})
	}
	l.repeats = runs.rows()
	return l, nil
}

// file adds one file.
func (l *layout) file(path, name string, methods map[string]int, runs repeats) error {
	src, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	set := token.NewFileSet()
	parsed, err := parser.ParseFile(set, name, src, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return fmt.Errorf("parse: %w", err)
	}
	if ast.IsGenerated(parsed) {
		return nil
	}
	dir, lines := filepath.ToSlash(filepath.Dir(name)), strings.Count(string(src), "\n")
	if l.packages[dir] == nil {
		l.packages[dir] = &pack{}
	}
	l.packages[dir].lines += lines
	l.packages[dir].files++
	l.lines, l.files = l.lines+lines, l.files+1
	height := func(n ast.Node) int { return set.Position(n.End()).Line - set.Position(n.Pos()).Line + 1 }
	for _, c := range parsed.Comments {
		l.comments += height(c)
	}
	for _, d := range parsed.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			l.function(d, dir, height(d), methods)
		case *ast.GenDecl:
			l.structs(d, dir)
		}
	}
	runs.add(name, string(src))
	return nil
}

func (l *layout) function(d *ast.FuncDecl, dir string, lines int, methods map[string]int) {
	name := dir + "." + d.Name.Name
	if d.Recv != nil && len(d.Recv.List) == 1 {
		name = dir + "." + receiver(d.Recv.List[0].Type)
		methods[name]++
		name += "." + d.Name.Name
	}
	l.funcs = append(l.funcs, row{name, lines})
}

// receiver returns the name of a receiver's type.
func receiver(e ast.Expr) string {
	for {
		switch t := e.(type) {
		case *ast.StarExpr:
			e = t.X
		case *ast.IndexExpr:
			e = t.X
		case *ast.IndexListExpr:
			e = t.X
		case *ast.Ident:
			return t.Name
		default:
			return "?"
		}
	}
}

func (l *layout) structs(d *ast.GenDecl, dir string) {
	for _, s := range d.Specs {
		t, ok := s.(*ast.TypeSpec)
		if !ok {
			continue
		}
		if body, ok := t.Type.(*ast.StructType); ok {
			l.fields = append(l.fields, row{dir + "." + t.Name.Name, body.Fields.NumFields()})
		}
	}
}

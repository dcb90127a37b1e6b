package when

import (
	"slices"

	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/common/types"
)

// Read is a part of the object, or of the one before, that an expression reads.
type Read struct {
	// Line and Col are where it begins, both from 1.
	Line, Col int
	// Old: it is of oldObject.
	Old bool
	// Keys lead to the part, from the object on. There are none for the object itself.
	Keys []string
	// Asked: the expression asks with has() for the part, or for one that it is in.
	Asked bool
}

// Reads returns what the expression reads by keys that are known without the object. A variable of a macro
// should have another name than object.
func (x *Expression) Reads() []Read {
	var all []Read
	var asked [][]string
	ast.PreOrderVisit(x.expr, ast.NewExprVisitor(func(e ast.Expr) {
		if e.Kind() == ast.SelectKind && e.AsSelect().IsTestOnly() {
			if r := x.into(e.AsSelect().Operand(), e.AsSelect().FieldName()); r != nil {
				all, asked = append(all, *r), append(asked, r.Keys)
			}
		} else if r := x.read(e); r != nil {
			all = append(all, *r)
		}
	}))
	for i := range all {
		all[i].Asked = slices.ContainsFunc(asked, func(keys []string) bool {
			return len(keys) <= len(all[i].Keys) && slices.Equal(keys, all[i].Keys[:len(keys)])
		})
	}
	return all
}

// read is the part of an object that a chain of keys leads to, nil for anything else.
func (x *Expression) read(e ast.Expr) *Read {
	switch e.Kind() {
	case ast.IdentKind:
		if name := e.AsIdent(); name == "object" || name == oldObject {
			line, col := place(x.source, e.ID())
			return &Read{Line: line, Col: col, Old: name == oldObject}
		}
	case ast.SelectKind:
		if s := e.AsSelect(); !s.IsTestOnly() {
			return x.into(s.Operand(), s.FieldName())
		}
	case ast.CallKind:
		if c := e.AsCall(); c.FunctionName() == operators.Index && c.Args()[1].Kind() == ast.LiteralKind {
			if key, ok := c.Args()[1].AsLiteral().(types.String); ok {
				return x.into(c.Args()[0], string(key))
			}
		}
	default:
	}
	return nil
}

func (x *Expression) into(outer ast.Expr, key string) *Read {
	r := x.read(outer)
	if r != nil {
		r.Keys = append(r.Keys, key)
	}
	return r
}

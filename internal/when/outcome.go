package when

import (
	"slices"

	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/common/types"
)

// Reading is a part of the object, or of the one before, that an expression reads.
type Reading struct {
	// Line and Col are where it begins, both from 1.
	Line, Col int
	// Keys lead to the part, from the object on.
	Keys []string
}

// Without says what becomes of the expression if parts of the object are never there:
// those for which missing reports true, and what is in them.
//
// It never holds if fails or has is not nil and holds is false: fails is the first part
// that is read without asking first, so that the expression may fail for it, and has the
// first one at all. It ignores fields that are read in loops (exists, all, ...).
func (x *Expression) Without(missing func(keys []string) bool) (holds bool, fails, has *Reading) {
	w := without{source: x.source, missing: missing}
	o := w.of(x.expr)
	return o.holds, o.read, w.first
}

// outcome is what may come of a part of an expression: true, false or an error; another
// value counts as both true and false.
type outcome struct {
	holds, not, fails bool
	// read is what is missing of the object and may make it fail, nil if nothing is.
	read *Reading
}

// onlyFails reports whether nothing else can come of it.
func (o outcome) onlyFails() bool { return !o.holds && !o.not }

// without evaluates an expression with every value that it may read.
type without struct {
	source  *ast.SourceInfo
	missing func(keys []string) bool
	first   *Reading // the first that is missing
}

func anything() outcome { return outcome{holds: true, not: true, fails: true} }

func (w *without) of(e ast.Expr) outcome {
	if r := w.reading(e); r != nil && len(r.Keys) > 0 {
		if w.misses(r) {
			return outcome{fails: true, read: r}
		}
		return anything()
	}
	switch e.Kind() {
	case ast.LiteralKind:
		if b, ok := e.AsLiteral().(types.Bool); ok {
			return outcome{holds: bool(b), not: !bool(b)}
		}
	case ast.SelectKind:
		return w.selected(e)
	case ast.CallKind:
		return w.call(e.AsCall())
	case ast.ComprehensionKind:
		return strict(w.of(e.AsComprehension().IterRange()))
	default:
	}
	return anything()
}

// strict is what fails if one of its parts does.
func strict(parts ...outcome) outcome {
	all := anything()
	for _, o := range parts {
		if all.read == nil {
			all.read = o.read
		}
		if o.onlyFails() {
			all.holds, all.not = false, false
		}
	}
	return all
}

// misses reports whether the part is never there.
func (w *without) misses(r *Reading) bool {
	if !w.missing(r.Keys) {
		return false
	}
	if w.first == nil {
		w.first = r
	}
	return true
}

// selected is a field of something that is not read of the object, or has().
func (w *without) selected(e ast.Expr) outcome {
	s := e.AsSelect()
	operand := w.of(s.Operand())
	if r := w.reading(s.Operand()); s.IsTestOnly() && r != nil && !operand.onlyFails() {
		r.Keys = append(r.Keys, s.FieldName())
		if w.misses(r) {
			return outcome{not: true}
		}
	}
	return strict(operand)
}

func (w *without) call(c ast.CallExpr) outcome {
	args := c.Args()
	switch c.FunctionName() {
	case operators.LogicalAnd:
		return not(or(not(w.of(args[0])), not(w.of(args[1]))))
	case operators.LogicalOr:
		return or(w.of(args[0]), w.of(args[1]))
	case operators.LogicalNot:
		return not(w.of(args[0]))
	case operators.Conditional:
		return choice(w.of(args[0]), w.of(args[1]), w.of(args[2]))
	case operators.OptSelect, operators.OptIndex:
		return anything()
	case "or", "orValue":
		args = nil // which are not looked at where there is a value
	}
	var parts []outcome
	if c.IsMemberFunction() {
		parts = append(parts, w.of(c.Target()))
	}
	for _, a := range args {
		parts = append(parts, w.of(a))
	}
	return strict(parts...)
}

func not(o outcome) outcome {
	o.holds, o.not = o.not, o.holds
	return o
}

// or is true if one of the two is, whatever becomes of the other.
func or(l, r outcome) outcome {
	leftSure, rightSure := l.holds && !l.not && !l.fails, r.holds && !r.not && !r.fails
	o := outcome{holds: l.holds || r.holds, not: l.not && r.not, fails: l.fails && !rightSure || r.fails && !leftSure}
	if !rightSure {
		o.read = l.read
	}
	if !leftSure && o.read == nil {
		o.read = r.read
	}
	return o
}

func choice(c, then, otherwise outcome) outcome {
	o := outcome{fails: c.fails, read: c.read}
	for _, way := range []struct {
		taken bool
		outcome
	}{{c.holds, then}, {c.not, otherwise}} {
		if !way.taken {
			continue
		}
		o.holds, o.not, o.fails = o.holds || way.holds, o.not || way.not, o.fails || way.fails
		if o.read == nil {
			o.read = way.read
		}
	}
	return o
}

// reading is the part of an object that a chain of keys leads to, which are known without
// it; nil for anything else.
func (w *without) reading(e ast.Expr) *Reading {
	switch e.Kind() {
	case ast.IdentKind:
		if name := e.AsIdent(); name == "object" || name == oldObject {
			line, col := place(w.source, e.ID())
			return &Reading{Line: line, Col: col}
		}
	case ast.SelectKind:
		if s := e.AsSelect(); !s.IsTestOnly() {
			return w.into(s.Operand(), s.FieldName())
		}
	case ast.CallKind:
		if c := e.AsCall(); c.FunctionName() == operators.Index && c.Args()[1].Kind() == ast.LiteralKind {
			if key, ok := c.Args()[1].AsLiteral().(types.String); ok {
				return w.into(c.Args()[0], string(key))
			}
		}
	default:
	}
	return nil
}

func (w *without) into(outer ast.Expr, key string) *Reading {
	r := w.reading(outer)
	if r != nil {
		r.Keys = append(slices.Clip(r.Keys), key)
	}
	return r
}

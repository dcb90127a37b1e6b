package when

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/interpreter"

	"github.com/informd/informd/pkg/event"
)

// Expression is an expression that was checked. It is safe for concurrent use.
type Expression struct {
	program cel.Program
	expr    ast.Expr
	source  *ast.SourceInfo
}

// Failure says why an expression has no result for an event. It never holds
// anything of the object.
type Failure struct {
	// Line and Col are the place in the expression, both from 1.
	Line, Col int
	// Reason is one of a few fixed texts.
	Reason string
}

// Error renders it as "line:col: reason".
func (f *Failure) Error() string { return fmt.Sprintf("%d:%d: %s", f.Line, f.Col, f.Reason) }

// Holds evaluates the expression for an event of an object. It keeps decoded values
// in decoded, for the next expression about the same event; the caller begins with
// nil for each event and uses it in one goroutine. The error is a *[Failure].
func (x *Expression) Holds(e *event.Event, decoded *any) (bool, error) {
	v, ok := (*decoded).(*view)
	if !ok || v.event != e {
		v = &view{event: e}
		*decoded = v
	}
	ctx, cancel := context.WithTimeout(context.Background(), TimeLimit)
	defer cancel()
	result, _, err := x.program.ContextEval(ctx, v)
	if err != nil {
		return false, x.failure(err)
	}
	holds, ok := result.(types.Bool)
	if !ok {
		return false, &Failure{Line: 1, Col: 1, Reason: "the result is neither true nor false"}
	}
	return bool(holds), nil
}

// failure tells where and why evaluating failed. CEL's message is not passed on: it
// may quote the object.
func (x *Expression) failure(err error) *Failure {
	f := &Failure{Line: 1, Col: 1, Reason: reason(err)}
	if e, ok := errors.AsType[*types.Err](err); ok && e.NodeID() > 0 {
		f.Line, f.Col = place(x.source, e.NodeID())
	}
	return f
}

// reason puts an error of CEL into one of a few classes.
func reason(err error) string {
	if cancelled, ok := errors.AsType[interpreter.EvalCancelledError](err); ok && cancelled.Cause == interpreter.CostLimitExceeded {
		return fmt.Sprintf("the cost is over the limit of %d", CostLimit)
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return fmt.Sprintf("it took longer than %s", TimeLimit)
	}
	message := err.Error()
	for _, class := range []struct{ begins, reason string }{
		{"no such key", "no such key"},
		{"no such attribute", "no such key"},
		{"no such overload", "no such function for values of these types"},
		{"found no matching overload", "no such function for values of these types"},
		{"index out of bounds", "no such index"},
		{"division by zero", "division by zero"},
		{"modulus by zero", "division by zero"},
		{"integer overflow", "a number out of range"},
		{"type conversion error", "a value that cannot be converted"},
		{"number out of range", "a number out of range"},
		{"the data nests", "the data nests too deeply"},
		{errTooDear, fmt.Sprintf("the cost is over the limit of %d", CostLimit)},
		{"internal error", "an error inside of CEL"},
	} {
		if strings.HasPrefix(message, class.begins) {
			return class.reason
		}
	}
	return "a value that does not fit"
}

// view is what the variables of expressions stand for with one event.
type view struct {
	event *event.Event
	// object, old and attributes are nil until they are read.
	object, old ref.Val
	attributes  *attributes
}

var _ cel.Activation = (*view)(nil)

func (v *view) ResolveName(name string) (any, bool) {
	switch name {
	case "object":
		if v.object == nil {
			v.object = decoded(v.event.Object())
		}
		return v.object, true
	case oldObject:
		if v.old == nil {
			v.old = decoded(v.event.Member(event.MemberOld))
		}
		return v.old, true
	case "op":
		return types.String(v.event.Op), true
	case "event":
		if v.attributes == nil {
			v.attributes = new(attributesOf(v.event))
		}
		return v.attributes, true
	}
	return nil, false
}

func (*view) Parent() cel.Activation { return nil }

// decoded is an object that is decoded as it is read, null for none.
func decoded(text []byte) ref.Val {
	if text != nil {
		return lazyValue(text)
	}
	return types.NullValue
}

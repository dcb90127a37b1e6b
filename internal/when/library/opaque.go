package library

import (
	"fmt"
	"reflect"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
)

// opaque is a value that only functions look into.
type opaque[T any] struct {
	of    *cel.Type
	value T
	equal func(a, b T) bool
}

var _ ref.Val = (*opaque[int])(nil)

func (o *opaque[T]) ConvertToNative(to reflect.Type) (any, error) {
	return nil, fmt.Errorf("type conversion error from '%s' to '%v'", o.of, to)
}

func (o *opaque[T]) ConvertToType(to ref.Type) ref.Val {
	switch to.TypeName() {
	case o.of.TypeName():
		return o
	case types.TypeType.TypeName():
		return o.of
	}
	return types.NewErr("type conversion error from '%s' to '%s'", o.of, to)
}

func (o *opaque[T]) Equal(other ref.Val) ref.Val {
	with, ok := other.(*opaque[T])
	if !ok || with.of != o.of {
		return types.MaybeNoSuchOverloadErr(other)
	}
	return types.Bool(o.equal(o.value, with.value))
}

func (o *opaque[T]) Type() ref.Type { return o.of }

func (o *opaque[T]) Value() any { return o.value }

// unary binds a function of one argument of the Go type that its value has.
func unary[A any](f func(A) ref.Val) cel.OverloadOpt {
	return cel.UnaryBinding(func(v ref.Val) ref.Val {
		a, ok := v.Value().(A)
		if !ok {
			return types.MaybeNoSuchOverloadErr(v)
		}
		return f(a)
	})
}

// binary is the same for two.
func binary[A, B any](f func(A, B) ref.Val) cel.OverloadOpt {
	return cel.BinaryBinding(func(v, w ref.Val) ref.Val {
		a, ok := v.Value().(A)
		if !ok {
			return types.MaybeNoSuchOverloadErr(v)
		}
		b, ok := w.Value().(B)
		if !ok {
			return types.MaybeNoSuchOverloadErr(w)
		}
		return f(a, b)
	})
}

func args(types ...*cel.Type) []*cel.Type { return types }

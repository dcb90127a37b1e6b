package library

import (
	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"
)

// lists are isSorted, sum, min, max, indexOf, lastIndexOf and includes.
func lists() []cel.EnvOption {
	zeros := map[*cel.Type]ref.Val{cel.IntType: types.Int(0), cel.UintType: types.Uint(0), cel.DoubleType: types.Double(0), cel.DurationType: types.Duration{}}
	summable := args(cel.IntType, cel.UintType, cel.DoubleType, cel.DurationType)
	ordered := append(args(cel.BoolType, cel.TimestampType, cel.StringType, cel.BytesType), summable...)
	// each declares a function once for every type of items.
	each := func(name string, items []*cel.Type, result func(item *cel.Type) *cel.Type, do func(item *cel.Type) func(ref.Val) ref.Val) cel.EnvOption {
		var overloads []cel.FunctionOpt
		for _, item := range items {
			overloads = append(overloads, cel.MemberOverload("list_"+item.String()+"_"+name, args(cel.ListType(item)), result(item), cel.UnaryBinding(do(item))))
		}
		return cel.Function(name, overloads...)
	}
	itself := func(item *cel.Type) *cel.Type { return item }
	boolean := func(*cel.Type) *cel.Type { return cel.BoolType }
	item := cel.TypeParamType("A")
	return []cel.EnvOption{
		each("isSorted", ordered, boolean, func(*cel.Type) func(ref.Val) ref.Val { return isSorted }),
		each("sum", summable, itself, func(item *cel.Type) func(ref.Val) ref.Val { return sum(zeros[item]) }),
		each("min", ordered, itself, func(*cel.Type) func(ref.Val) ref.Val { return extreme("min", types.IntOne) }),
		each("max", ordered, itself, func(*cel.Type) func(ref.Val) ref.Val { return extreme("max", types.IntNegOne) }),
		cel.Function("indexOf", cel.MemberOverload("list_a_index_of_int", args(cel.ListType(item), item), cel.IntType, cel.BinaryBinding(func(list, item ref.Val) ref.Val { return indexOf(list, item, false) }))),
		cel.Function("lastIndexOf", cel.MemberOverload("list_a_last_index_of_int", args(cel.ListType(item), item), cel.IntType, cel.BinaryBinding(func(list, item ref.Val) ref.Val { return indexOf(list, item, true) }))),
		cel.Function("includes", cel.MemberOverload("list_includes_dyn_dyn", args(cel.DynType, cel.DynType), cel.BoolType, cel.BinaryBinding(includes))),
	}
}

// walk calls do for every item of a list until that returns false, or for the first
// item that is an error.
func walk(list ref.Val, do func(item ref.Val) (goOn bool)) (failed ref.Val) {
	iterable, ok := list.(traits.Iterable)
	if !ok {
		return types.MaybeNoSuchOverloadErr(list)
	}
	for it := iterable.Iterator(); it.HasNext() == types.True; {
		item := it.Next()
		if types.IsUnknownOrError(item) {
			return item
		}
		if !do(item) {
			break
		}
	}
	return nil
}

// compare orders two items; what cannot be compared is returned as failed.
func compare(a, b ref.Val) (order, failed ref.Val) {
	c, ok := a.(traits.Comparer)
	if !ok {
		return nil, types.MaybeNoSuchOverloadErr(a)
	}
	if order = c.Compare(b); types.IsUnknownOrError(order) {
		return nil, order
	}
	return order, nil
}

func isSorted(list ref.Val) ref.Val {
	var before ref.Val
	var result ref.Val = types.True
	failed := walk(list, func(item ref.Val) bool {
		if before != nil {
			order, failed := compare(before, item)
			if failed != nil {
				result = failed
			} else if order == types.IntOne {
				result = types.False
			}
		}
		before = item
		return result == types.True
	})
	if failed != nil {
		return failed
	}
	return result
}

// sum begins with the first item, so that it is right for a list whose items' type
// only the object knows.
func sum(zero ref.Val) func(ref.Val) ref.Val {
	return func(list ref.Val) ref.Val {
		var total ref.Val
		failed := walk(list, func(item ref.Val) bool {
			switch adder, ok := total.(traits.Adder); {
			case total == nil:
				total = item
			case !ok:
				total = types.MaybeNoSuchOverloadErr(total)
			default:
				total = adder.Add(item)
			}
			return !types.IsUnknownOrError(total)
		})
		switch {
		case failed != nil:
			return failed
		case total == nil:
			return zero
		}
		return total
	}
}

// extreme returns the item that every other one compares to otherwise than replace.
func extreme(name string, replace ref.Val) func(ref.Val) ref.Val {
	return func(list ref.Val) ref.Val {
		var best ref.Val
		failed := walk(list, func(item ref.Val) bool {
			if best == nil {
				best = item
				return true
			}
			order, failed := compare(best, item)
			if failed != nil {
				best = failed
			} else if order == replace {
				best = item
			}
			return failed == nil
		})
		switch {
		case failed != nil:
			return failed
		case best == nil:
			return types.NewErr("%s called on empty list", name)
		}
		return best
	}
}

// indexOf returns the index of the first item of a list that equals item, or of the last one; -1
// if there is none.
func indexOf(list, item ref.Val, last bool) ref.Val {
	at, found := types.Int(-1), types.Int(-1)
	if failed := walk(list, func(one ref.Val) bool {
		if at++; types.Equal(one, item) == types.True {
			found = at
		}
		return last || found < 0
	}); failed != nil {
		return failed
	}
	return found
}

func includes(target, item ref.Val) ref.Val {
	if _, ok := target.(traits.Lister); !ok {
		return types.Bool(types.Equal(target, item) == types.True)
	}
	switch at := indexOf(target, item, false).(type) {
	case types.Int:
		return types.Bool(at >= 0)
	default:
		return at
	}
}

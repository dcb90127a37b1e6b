package library

import (
	"errors"
	"strconv"
	"strings"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"k8s.io/apimachinery/pkg/api/resource"
)

// quantities are quantity("1.5Gi"), isQuantity, and the arithmetic and comparisons
// of what the first returns.
func quantities() []cel.EnvOption {
	quantity := cel.ObjectType("kubernetes.Quantity")
	value := func(q resource.Quantity) ref.Val {
		return &opaque[*resource.Quantity]{of: quantity, value: &q, equal: func(a, b *resource.Quantity) bool { return a.Equal(*b) }}
	}
	type q = *resource.Quantity
	compare := func(id string, result *cel.Type, decide func(order int) ref.Val) cel.FunctionOpt {
		return cel.MemberOverload(id, args(quantity, quantity), result, binary(func(a, b q) ref.Val { return decide(a.Cmp(*b)) }))
	}
	combine := func(id string, do func(a *resource.Quantity, b resource.Quantity)) []cel.FunctionOpt {
		do2 := func(a q, b resource.Quantity) ref.Val {
			sum := a.DeepCopy()
			do(&sum, b)
			return value(sum)
		}
		return []cel.FunctionOpt{
			cel.MemberOverload(id, args(quantity, quantity), quantity, binary(func(a, b q) ref.Val { return do2(a, *b) })),
			cel.MemberOverload(id+"_int", args(quantity, cel.IntType), quantity,
				binary(func(a q, b int64) ref.Val { return do2(a, *resource.NewQuantity(b, resource.DecimalExponent)) })),
		}
	}
	sign := unary(func(a q) ref.Val { return types.Int(a.Sign()) })
	return []cel.EnvOption{
		cel.Function("quantity", cel.Overload("string_to_quantity", args(cel.StringType), quantity, unary(func(s string) ref.Val {
			parsed, err := parseQuantity(s)
			if err != nil {
				return types.WrapErr(err)
			}
			return value(parsed)
		}))),
		cel.Function("isQuantity", cel.Overload("is_quantity_string", args(cel.StringType), cel.BoolType, unary(func(s string) ref.Val {
			_, err := parseQuantity(s)
			return types.Bool(err == nil)
		}))),
		cel.Function("sign",
			cel.Overload("quantity_sign", args(quantity), cel.IntType, sign),
			cel.MemberOverload("quantity_sign_member", args(quantity), cel.IntType, sign)),
		cel.Function("isGreaterThan", compare("quantity_is_greater_than", cel.BoolType, func(order int) ref.Val { return types.Bool(order > 0) })),
		cel.Function("isLessThan", compare("quantity_is_less_than", cel.BoolType, func(order int) ref.Val { return types.Bool(order < 0) })),
		cel.Function("compareTo", compare("quantity_compare_to", cel.IntType, func(order int) ref.Val { return types.Int(order) })),
		cel.Function("asApproximateFloat", cel.MemberOverload("quantity_get_float", args(quantity), cel.DoubleType,
			unary(func(a q) ref.Val { return types.Double(a.AsApproximateFloat64()) }))),
		cel.Function("isInteger", cel.MemberOverload("quantity_is_integer", args(quantity), cel.BoolType, unary(func(a q) ref.Val {
			_, ok := a.AsInt64()
			return types.Bool(ok)
		}))),
		cel.Function("asInteger", cel.MemberOverload("quantity_get_int", args(quantity), cel.IntType, unary(func(a q) ref.Val {
			n, ok := a.AsInt64()
			if !ok {
				return types.NewErr("cannot convert value to integer")
			}
			return types.Int(n)
		}))),
		cel.Function("add", combine("quantity_add", (*resource.Quantity).Add)...),
		cel.Function("sub", combine("quantity_sub", (*resource.Quantity).Sub)...),
	}
}

const (
	// maxQuantity is how many bytes a quantity may have.
	maxQuantity = 64
	// maxExponent bounds the number behind the e of a quantity, on both sides of 0.
	maxExponent = 100
)

var errQuantity = errors.New("a quantity has at most 64 bytes and an exponent from -100 to 100")

// parseQuantity refuses quantities that take seconds or gigabytes. Kubernetes accepts every
// exponent of 32 bits, and multiplies it out to compare, add or round a quantity
// (kubernetes/kubernetes#131063).
func parseQuantity(s string) (resource.Quantity, error) {
	if len(s) > maxQuantity {
		return resource.Quantity{}, errQuantity
	}
	if e := strings.LastIndexAny(s, "eE"); e >= 0 {
		exponent, err := strconv.Atoi(s[e+1:])
		if errors.Is(err, strconv.ErrRange) || exponent < -maxExponent || exponent > maxExponent {
			return resource.Quantity{}, errQuantity
		}
	}
	return resource.ParseQuantity(s)
}

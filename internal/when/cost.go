package when

import (
	"errors"
	"math"
	"strconv"
	"strings"
	"sync"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common"
	"github.com/google/cel-go/common/functions"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"
	"github.com/google/cel-go/interpreter"
	kubernetes "k8s.io/apiserver/pkg/cel/library"
)

// errTooDear is the message of a call that is not made because it alone would cost
// more than the limit.
const errTooDear = "the call costs more than the limit"

// programOptions charge every call, as admission policies do, and end an evaluation
// whose cost comes to more than limit, or whose context ends, which loops look at.
// CEL charges a call when it is done; those of which a single one may take hours or
// gigabytes are charged before.
func programOptions(env *cel.Env, limit uint64) ([]cel.ProgramOption, error) {
	g := guard{limit: limit, calls: map[string]functions.FunctionOp{}, steps: new(sync.Map)}
	for name, function := range env.Functions() {
		if _, guarded := g.cost(name); !guarded {
			continue
		}
		overloads, err := function.Bindings()
		if err != nil {
			return nil, err
		}
		for _, o := range overloads {
			g.calls[name+" "+o.Operator] = variadic(o)
		}
	}
	return []cel.ProgramOption{
		cel.EvalOptions(cel.OptOptimize, cel.OptTrackCost),
		cel.CostLimit(limit),
		cel.InterruptCheckFrequency(interruptEvery),
		cel.CostTracking(costs{new(kubernetes.CostEstimator), g.steps}),
		cel.CostTrackerOptions(
			interpreter.PresenceTestHasCost(false),
			// CEL's own panic if the list could not be had.
			interpreter.OverloadCostTracker("list_distinct", squared),
			interpreter.OverloadCostTracker("list_flatten_int", linear),
		),
		cel.OptimizeRegex(g.constant("find", "", find), g.constant("findAll", "", findAll),
			g.constant("matches", "matches", matches), g.constant("matches", "matches_string", matches)),
		cel.CustomDecoratorV2(g.decorate),
	}, nil
}

// interruptEvery is how many rounds of loops come between two looks at the context.
const interruptEvery = 100

func variadic(o *functions.Overload) functions.FunctionOp {
	switch {
	case o.Function != nil:
		return o.Function
	case o.Binary != nil:
		return func(values ...ref.Val) ref.Val { return o.Binary(values[0], values[1]) }
	case o.Unary != nil:
		return func(values ...ref.Val) ref.Val { return o.Unary(values[0]) }
	}
	return nil
}

func squared(values []ref.Val, _ ref.Val) *uint64 { return charge(size(values[0]) * size(values[0])) }

func linear(values []ref.Val, result ref.Val) *uint64 {
	return charge(common.ListCreateBaseCost + size(values[0]) + size(result))
}

// charge rounds up.
func charge(cost float64) *uint64 {
	charged := uint64(max(1, math.Ceil(cost)))
	return &charged
}

// costs charges calls as Kubernetes does. Of those that search in a text it knows more.
type costs struct {
	*kubernetes.CostEstimator
	steps *sync.Map // of the programs of regular expressions, by their text
}

func (c costs) CallCost(function, overload string, values []ref.Val, result ref.Val) *uint64 {
	switch function {
	case "indexOf", "lastIndexOf":
		if _, ok := values[0].(traits.Lister); !ok {
			return charge(locating(values))
		}
	case "matches", "find", "findAll":
		pattern, _ := values[1].(types.String)
		steps, _ := c.steps.Load(string(pattern))
		known, _ := steps.(int)
		return charge(searching(values[0], values[1], known))
	}
	return c.CostEstimator.CallCost(function, overload, values, result)
}

// size is what CEL takes for the size of a value.
func size(value ref.Val) float64 {
	if sizer, ok := value.(traits.Sizer); ok {
		if n, ok := sizer.Size().(types.Int); ok {
			return float64(n)
		}
	}
	return 1
}

// searching is the cost of matching with a program of that many steps: the pattern may be
// shorter than its program.
func searching(text, expression ref.Val, steps int) float64 {
	const always = 2 // steps that every program has
	most := math.Max(math.Ceil(size(expression)*common.RegexStringLengthCostFactor), math.Ceil(float64(steps-always)*common.RegexStringLengthCostFactor))
	return math.Ceil((1+size(text))*common.StringTraversalCostFactor) * most
}

// guard keeps calls that are too dear from being made.
type guard struct {
	limit uint64
	// calls are the functions, by name and overload.
	calls map[string]functions.FunctionOp
	// steps are those of costs.
	steps *sync.Map
}

// cost returns how to find out what a call will cost.
func (g guard) cost(function string) (before func(values []ref.Val) float64, guarded bool) {
	switch function {
	case "sets.contains", "sets.intersects", "sets.equivalent":
		return g.comparing, true
	case "distinct":
		return func(v []ref.Val) float64 { return g.comparing([]ref.Val{v[0], v[0]}) }, true
	case "sort":
		return func(v []ref.Val) float64 { return size(v[0]) * math.Log2(1+size(v[0])) }, true
	case "flatten":
		return flattening, true
	case "indexOf", "lastIndexOf":
		return locating, true
	case "replace":
		return func(v []ref.Val) float64 {
			text, _ := v[0].(types.String)
			old, _ := v[1].(types.String)
			return length(size(v[0]) + float64(strings.Count(string(text), string(old)))*size(v[2]))
		}, true
	case "join":
		return func(v []ref.Val) float64 {
			separators := 0.0
			if len(v) > 1 {
				separators = size(v[0]) * size(v[1])
			}
			return length(weight(v[0]) + separators)
		}, true
	case "quantity", "isQuantity":
		return func(v []ref.Val) float64 { return multiplying(v[0]) }, true
	case "format":
		return func(v []ref.Val) float64 { return length(size(v[0]) + weight(v[1])) }, true
	}
	return nil, false
}

// comparingFactor is the cost of comparing one character with another.
const comparingFactor = 0.001

// locating is the cost of indexOf: in a string, every character may be compared with all of the
// text that is looked for. One comparison takes about a nanosecond.
func locating(v []ref.Val) float64 {
	if _, ok := v[0].(traits.Lister); ok {
		return size(v[0])
	}
	return size(v[0]) * max(common.StringTraversalCostFactor, size(v[1])*comparingFactor)
}

// comparing is the cost of comparing all items of one list with all of another, and what is in
// them.
func (g guard) comparing(v []ref.Val) float64 {
	pairs := size(v[0]) * size(v[1])
	if pairs > float64(g.limit) {
		return pairs
	}
	return max(pairs, min(content(v[0])*size(v[1]), size(v[0])*content(v[1])))
}

// flattening is the cost of copying items: those of a list in a list once for each level.
func flattening(v []ref.Val) float64 {
	depth := types.IntOne
	if len(v) > 1 {
		depth, _ = v[1].(types.Int)
	}
	return content(v[0]) * max(1, float64(depth))
}

const (
	// maxQuantity is how many bytes a quantity may have.
	maxQuantity = 64
	// maxExponent bounds the number behind the e of a quantity, on both sides of 0.
	maxExponent = 100
)

// multiplying is the cost of a quantity: nothing, or more than any limit if it takes seconds or
// gigabytes. Kubernetes accepts every exponent of 32 bits, and multiplies it out to compare, add
// or round a quantity (kubernetes/kubernetes#131063).
func multiplying(quantity ref.Val) float64 {
	text, _ := quantity.Value().(string)
	if len(text) > maxQuantity {
		return math.Inf(1)
	}
	if e := strings.LastIndexAny(text, "eE"); e >= 0 {
		exponent, err := strconv.Atoi(text[e+1:])
		if errors.Is(err, strconv.ErrRange) || exponent < -maxExponent || exponent > maxExponent {
			return math.Inf(1)
		}
	}
	return 0
}

// length is the cost of a text that is made.
func length(characters float64) float64 { return 2 * common.StringTraversalCostFactor * characters }

// maxWeighed is how many values weight looks at: more than that are too many.
const maxWeighed = 1_000_000

// weight is the length of all that is in a value.
func weight(value ref.Val) float64 { return weigh(value, size) }

// content is the number of items and entries in a value, at any level.
func content(value ref.Val) float64 { return weigh(value, func(ref.Val) float64 { return 1 }) - 1 }

// weigh is the sum of a measure over a value and all that is in it.
func weigh(value ref.Val, measure func(ref.Val) float64) float64 {
	total, left := 0.0, maxWeighed
	var add func(value ref.Val)
	add = func(value ref.Val) {
		if left--; left < 0 {
			total = math.Inf(1)
			return
		}
		total += measure(value)
		items, ok := value.(traits.Iterable)
		if _, text := value.(types.String); !ok || text {
			return
		}
		entries, _ := value.(traits.Mapper)
		for it := items.Iterator(); it.HasNext() == types.True && left >= 0; {
			item := it.Next()
			add(item)
			if entries != nil {
				add(entries.Get(item))
			}
		}
	}
	add(value)
	return total
}

// decorate puts the check before a call.
func (g guard) decorate(step interpreter.InterpretableV2) (interpreter.InterpretableV2, error) {
	c, ok := step.(interpreter.InterpretableCall)
	if !ok {
		return step, nil
	}
	before, guarded := g.cost(c.Function())
	if !guarded {
		return step, nil
	}
	do := g.calls[c.Function()+" "+c.OverloadID()]
	if do == nil {
		do = g.calls[c.Function()+" "+c.Function()] // decides by the values' types
	}
	if do == nil {
		return step, nil
	}
	return interpreter.NewCall(c.ID(), c.Function(), c.OverloadID(), c.Args(), func(values ...ref.Val) ref.Val {
		if before(values) <= float64(g.limit) {
			return do(values...)
		}
		if c.Function() == "isQuantity" {
			return types.False // quantity() does not take it
		}
		return types.NewErrFromString(errTooDear)
	}), nil
}

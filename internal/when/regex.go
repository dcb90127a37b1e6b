package when

import (
	"fmt"
	"regexp"
	"slices"
	"time"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/interpreter"

	"github.com/informd/informd/internal/search"
)

// function looks for a pattern in a text: n finds at most, all if it is negative.
type function func(pattern *regexp.Regexp, text string, n int) ref.Val

func find(pattern *regexp.Regexp, text string, _ int) ref.Val {
	return types.String(pattern.FindString(text))
}

// searchTime is when findAll ends: the next match may take as long as the first.
const searchTime = 300 * time.Millisecond

func findAll(pattern *regexp.Regexp, text string, n int) ref.Val {
	var all []string
	if n != 0 && !search.All(pattern, []byte(text), searchTime, func(from, to int) bool {
		all = append(all, text[from:to])
		return len(all) != n
	}) {
		return types.NewErrFromString(errTooDear)
	}
	return types.NewStringList(types.DefaultTypeAdapter, all)
}

func matches(pattern *regexp.Regexp, text string, _ int) ref.Val {
	return types.Bool(pattern.MatchString(text))
}

func call(s function, pattern *regexp.Regexp, values []ref.Val) ref.Val {
	text, ok := values[0].Value().(string)
	if !ok {
		return types.MaybeNoSuchOverloadErr(values[0])
	}
	n := int64(-1)
	if len(values) > 2 {
		if n, ok = values[2].Value().(int64); !ok {
			return types.MaybeNoSuchOverloadErr(values[2])
		}
	}
	return s(pattern, text, int(n))
}

// constant compiles a pattern that the expression itself has once for all. A call that
// alone would cost more than the limit is not made.
func (g guard) constant(name, overload string, s function) *interpreter.RegexOptimization {
	return &interpreter.RegexOptimization{
		Function: name, OverloadID: overload, RegexIndex: 1,
		Factory: func(c interpreter.InterpretableCall, pattern string) (interpreter.InterpretableCall, error) {
			compiled, err := regexp.Compile(pattern)
			if err != nil {
				return nil, err
			}
			steps, err := search.Size(pattern)
			if err != nil {
				return nil, fmt.Errorf("the regular expression is too large: %w", err)
			}
			g.steps.Store(pattern, steps)
			return interpreter.NewCall(c.ID(), c.Function(), c.OverloadID(), c.Args(), func(values ...ref.Val) ref.Val {
				if searching(values[0], values[1], steps) > float64(g.limit) {
					return types.NewErrFromString(errTooDear)
				}
				return call(s, compiled, values)
			}), nil
		},
	}
}

// literalPatterns refuses regular expressions that are not in the expression itself: the search for one that a
// hostile object has may take hours.
type literalPatterns struct{}

func (literalPatterns) Name() string { return "informd.validator.literal_patterns" }

func (literalPatterns) Validate(_ *cel.Env, _ cel.ValidatorConfig, a *ast.AST, issues *cel.Issues) {
	ast.PreOrderVisit(a.Expr(), ast.NewExprVisitor(func(e ast.Expr) {
		if e.Kind() != ast.CallKind || !slices.Contains([]string{"matches", "find", "findAll"}, e.AsCall().FunctionName()) {
			return
		}
		c := e.AsCall()
		pattern := c.Args()[0]
		if !c.IsMemberFunction() {
			pattern = c.Args()[1]
		}
		if pattern.Kind() != ast.LiteralKind {
			issues.ReportErrorAtID(pattern.ID(), "the pattern of %s must be a text in quotes", c.FunctionName())
		}
	}))
}

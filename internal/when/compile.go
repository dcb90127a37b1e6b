package when

import (
	"fmt"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common"
	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/ext"
)

// CostLimit is the cost at which an evaluation ends, a tenth of what admission
// policies may cost: that many steps of a loop, or characters of text times ten, which
// takes some tens of milliseconds on a machine that is not busy. CEL's own accounting
// takes time with the square of the steps, so that ten times as much would take seconds.
const CostLimit = 100_000

// TimeLimit is when an evaluation ends whatever it has cost, so that a sink's other
// events do not wait for it longer.
const TimeLimit = time.Second

// maxText is how long an expression may be: the time of CEL's parser grows faster
// than the text.
const maxText = 10_000

// Compiler checks expressions. It is safe for concurrent use.
type Compiler struct {
	env     *cel.Env
	options []cel.ProgramOption
	names   []string // of variables and functions
}

// NewCompiler makes a Compiler, which takes some milliseconds. The error is a bug.
func NewCompiler() (*Compiler, error) {
	options := []cel.EnvOption{
		cel.Variable("object", cel.DynType),
		cel.Variable(oldObject, cel.DynType),
		cel.Variable("op", cel.StringType),
		cel.Variable("event", cel.ObjectType(attributesType)),
		// As in admission policies.
		cel.HomogeneousAggregateLiterals(),
		cel.DefaultUTCTimeZone(true),
		cel.CrossTypeNumericComparisons(true),
		cel.OptionalTypes(),
		cel.ASTValidators(cel.ValidateDurationLiterals(), cel.ValidateTimestampLiterals(), cel.ValidateRegexLiterals(),
			cel.ValidateHomogeneousAggregateLiterals()),
	}
	options = append(options, library()...)
	// Behind the types of the library, which want the provider that this replaces.
	options = append(options, ext.NativeTypes(reflect.TypeFor[attributes](), ext.ParseStructTags(true)))
	env, err := cel.NewEnv(options...)
	if err != nil {
		return nil, fmt.Errorf("make the environment of expressions: %w", err)
	}
	c := &Compiler{env: env, names: variables()}
	if c.options, err = programOptions(env, CostLimit); err != nil {
		return nil, fmt.Errorf("make the options of expressions: %w", err)
	}
	written := regexp.MustCompile(`^[a-zA-Z][a-zA-Z0-9_.]*$`) // by people: operators have other names
	for _, name := range slices.Sorted(maps.Keys(env.Functions())) {
		if written.MatchString(name) {
			c.names = append(c.names, name)
		}
	}
	return c, nil
}

// oldObject is the variable that only some events have a value for.
const oldObject = "oldObject"

func variables() []string { return []string{"object", oldObject, "op", "event"} }

// Problem is a mistake in an expression.
type Problem struct {
	// Line and Col are its place in the text, both from 1; the column is in characters.
	Line, Col int
	// Message says what is wrong, on one line.
	Message string
	// Unknown is a name that the expression uses and that is unknown, "" if that is not
	// the mistake. Known are those of which one may have been meant, and Expected,
	// the first of them, what to name to somebody who seems to have meant none.
	Unknown         string
	Known, Expected []string
}

// Compile checks the text of an expression. Its result is true or false, or
// depends on the object, so that only the evaluation shows it. It returns the expression, or
// every mistake.
func (c *Compiler) Compile(text string) (*Expression, []Problem) {
	if strings.TrimSpace(text) == "" {
		return nil, []Problem{{Line: 1, Col: 1, Message: "is empty: remove it, or write an expression"}}
	}
	if utf8.RuneCountInString(text) > maxText {
		return nil, []Problem{{Line: 1, Col: 1, Message: fmt.Sprintf("is longer than %d characters", maxText)}}
	}
	parsed, issues := c.env.Parse(text)
	if issues.Err() != nil {
		// What comes after a mistake of syntax is mostly its consequence.
		return nil, []Problem{c.problem(text, issues.Errors()[0])}
	}
	checked, issues := c.env.Check(parsed)
	if issues.Err() != nil {
		var all []Problem
		for _, one := range issues.Errors() {
			all = append(all, c.problem(text, one))
		}
		return nil, all
	}
	if of := checked.OutputType(); !of.IsExactType(cel.BoolType) && !of.IsExactType(cel.DynType) {
		return nil, []Problem{{Line: 1, Col: 1, Message: fmt.Sprintf("must come to true or false, not to a value of type %s", of)}}
	}
	program, err := c.env.Program(checked, c.options...)
	if err != nil {
		return nil, []Problem{{Line: 1, Col: 1, Message: flat(err.Error())}}
	}
	return &Expression{program: program, expr: checked.NativeRep().Expr(), source: checked.NativeRep().SourceInfo()}, nil
}

// problem makes CEL's message about a text readable.
func (c *Compiler) problem(text string, e *common.Error) Problem {
	p := Problem{Line: max(1, e.Location.Line()), Col: max(0, e.Location.Column()) + 1, Message: flat(e.Message)}
	if name := found(`^undeclared reference to '([^']*)'`, p.Message); name != "" {
		p.Message = fmt.Sprintf("there is no %q", name)
		p.Unknown, p.Known, p.Expected = name, c.names, variables()
	} else if name := found(`^undefined field '([^']*)'`, p.Message); name != "" {
		p.Message = fmt.Sprintf("event has no %q", name)
		p.Unknown, p.Known, p.Expected = name, Fields(), Fields()
	} else if strings.HasPrefix(p.Message, "invalid argument to has()") {
		p.Message = "has() asks about a field, as in has(object.status)"
		if regexp.MustCompile(`\bhas\(\s*` + oldObject + `\s*\)`).MatchString(text) {
			p.Message = "has() takes a field; oldObject is null if the event does not have it: write oldObject != null"
		}
	}
	p.Col = column(text, p)
	return p
}

// column is where a name that is not known begins: CEL says where the dot before it or
// the bracket behind it is.
func column(text string, p Problem) int {
	lines := strings.Split(text, "\n")
	if p.Unknown == "" || p.Line > len(lines) {
		return p.Col
	}
	line := []rune(lines[p.Line-1])
	at := min(p.Col-1, len(line))
	switch {
	case strings.HasPrefix(string(line[at:]), "."+p.Unknown):
		return p.Col + 1
	case strings.HasSuffix(string(line[:at]), p.Unknown):
		return p.Col - len([]rune(p.Unknown))
	}
	return p.Col
}

// found returns what the group of a pattern matches.
func found(pattern, text string) string {
	if groups := regexp.MustCompile(pattern).FindStringSubmatch(text); groups != nil {
		return groups[1]
	}
	return ""
}

// flat makes one line of a message, without the list of all that the parser would
// have taken.
func flat(message string) string {
	message, _, _ = strings.Cut(message, " expecting {")
	return strings.Join(strings.Fields(message), " ")
}

// place is where the part of an expression with that id begins.
func place(source *ast.SourceInfo, id int64) (line, col int) {
	if at := source.GetStartLocation(id); at != common.NoLocation {
		return at.Line(), at.Column() + 1
	}
	return 1, 1
}

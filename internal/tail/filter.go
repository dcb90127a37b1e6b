package tail

import (
	"fmt"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/informd/informd/internal/config"
	"github.com/informd/informd/internal/when"
	"github.com/informd/informd/pkg/event"
)

// Filter says which events a reader wants. Empty fields want all.
type Filter struct {
	// Resource is a name or pattern as in the config: "pods", "deployments.apps", "*.apps".
	Resource string
	// Namespace and Name are exact. Op is an operation.
	Namespace, Name, Op string
	// Condition is a CEL expression as in matches of sinks; only events of objects have a
	// result. An event for which it fails is not wanted.
	Condition string
}

// Wants are the events of a filter.
type Wants struct {
	filter    Filter
	resource  *config.Resource
	condition *when.Expression
	// Failed counts the events for which the condition failed.
	Failed atomic.Uint64
}

// Resource is the resource that is wanted, as the filter names it; empty for all.
func (w *Wants) Resource() string { return w.filter.Resource }

// MayBe reports whether events of a resource are wanted, as far as its name says.
func (w *Wants) MayBe(group, resource string) bool {
	of := &group
	if !strings.Contains(w.filter.Resource, ".") {
		of = nil
	}
	return w.resource == nil || w.resource.MayBe(of, resource)
}

// Compile checks a filter. The error says which field is wrong and why.
func (f Filter) Compile() (*Wants, error) {
	w := &Wants{filter: f}
	if f.Resource != "" {
		r, ok := config.ParseResourceName(f.Resource)
		if !ok {
			return nil, fmt.Errorf("resource %q: it must be a plural name as kubectl has it, as in pods or deployments.apps", f.Resource)
		}
		w.resource = &r
	}
	if f.Op != "" && !slices.Contains(event.Ops(), event.Op(f.Op)) {
		return nil, fmt.Errorf("op %q: it must be one of %s", f.Op, strings.Join(config.NamesOf(func(event.Op) bool { return true }), ", "))
	}
	if f.Condition == "" {
		return w, nil
	}
	compiler, err := when.NewCompiler()
	if err != nil {
		return nil, err
	}
	expression, problems := compiler.Compile(f.Condition)
	if len(problems) > 0 {
		return nil, fmt.Errorf("condition, line %d, column %d: %s", problems[0].Line, problems[0].Col, problems[0].Message)
	}
	w.condition = expression
	return w, nil
}

// Match reports whether the filter wants an event.
func (w *Wants) Match(e *event.Event) bool {
	f := &w.filter
	switch {
	case f.Op != "" && string(e.Op) != f.Op, f.Namespace != "" && e.Namespace != f.Namespace, f.Name != "" && e.Name != f.Name,
		!w.MayBe(e.Group, e.Resource):
		return false
	case w.condition == nil:
		return true
	case e.Op.Control():
		return false
	}
	var decoded any
	holds, err := w.condition.Holds(e, &decoded)
	if err != nil {
		w.Failed.Add(1)
		return false
	}
	return holds
}

package deliver

import (
	"fmt"

	"github.com/informd/informd/pkg/event"
)

// Explain says why [Route.Admits] is what it is for the event: admitted is the same,
// and reasons are the match that lets it through, or what keeps each of them from it.
func (r *Route) Explain(e *event.Event) (admitted bool, reasons []string) {
	admitted = r.Admits(e)
	switch {
	case e.Op == event.Snapshot && !r.snapshot && !e.Reannounced():
		return admitted, []string{"start: now leaves the snapshot out"}
	case len(r.matches) == 0 && admitted:
		return admitted, []string{"there is no match"}
	case len(r.matches) == 0:
		return admitted, []string{"the sink gets state only if a match has it in control"}
	}
	var decoded *any
	for i := range r.matches {
		switch key, err := r.matches[i].refuses(e, false, &decoded); {
		case key == "" && err != nil:
			return admitted, []string{fmt.Sprintf("match[%d].condition fails, and onConditionError is deliver: %v", i, err)}
		case key == "":
			return admitted, []string{fmt.Sprintf("match[%d] lets it through", i)}
		case err != nil:
			reasons = append(reasons, fmt.Sprintf("match[%d].condition fails, and onConditionError is drop: %v", i, err))
		default:
			reasons = append(reasons, fmt.Sprintf("match[%d].%s does not let %s through", i, key, attribute(e, key)))
		}
	}
	return admitted, reasons
}

// attribute is what of an event a condition is about.
func attribute(e *event.Event, key string) string {
	switch key {
	case "ops", "control":
		return fmt.Sprintf("op %s", e.Op)
	case "group":
		return fmt.Sprintf("group %q", event.GroupOrCore(e.Group))
	case "resource":
		return fmt.Sprintf("resource %q", e.Resource)
	case "namespaces":
		if e.Namespace == "" {
			return "what is cluster-scoped"
		}
		return fmt.Sprintf("namespace %q", e.Namespace)
	}
	return "the event"
}

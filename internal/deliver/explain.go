package deliver

import (
	"fmt"

	"github.com/informd/informd/pkg/event"
)

// Explain says why [Route.Admits] is what it is for the event: admitted is the same,
// and reasons are the match that lets it through, or what keeps each of them from it.
func (r *Route) Explain(e *event.Event) (admitted bool, reasons []string) {
	admitted = r.decide(e, false, func(match int, key string, err error) {
		switch {
		case key == "" && err != nil:
			reasons = []string{fmt.Sprintf("match[%d].condition fails, and onConditionError is deliver: %v", match, err)}
		case key == "":
			reasons = []string{fmt.Sprintf("match[%d] lets it through", match)}
		case err != nil:
			reasons = append(reasons, fmt.Sprintf("match[%d].condition fails, and onConditionError is drop: %v", match, err))
		default:
			reasons = append(reasons, fmt.Sprintf("match[%d].%s does not let %s through", match, key, attribute(e, key)))
		}
	})
	switch {
	case len(reasons) > 0:
		return admitted, reasons
	case e.Op == event.Snapshot && !r.snapshot && !e.Reannounced():
		return admitted, []string{"start: now leaves the snapshot out"}
	case admitted:
		return admitted, []string{"there is no match"}
	default:
		return admitted, []string{"the sink gets state only if a match has it in control"}
	}
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

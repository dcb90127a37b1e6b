package rbac

import (
	"slices"

	"github.com/informd/informd/internal/config"
	"github.com/informd/informd/pkg/dynwatch"
)

// ownerRules are those with which informd can look up the owners of the entries' objects. Which
// kinds else are controllers only the cluster knows.
func ownerRules(watched []config.Resource) (rules []rule) {
	var at []int
	for _, r := range watched {
		if r.OwnerChain {
			at = append(at, r.Pos.Line)
		}
	}
	if len(at) == 0 {
		return nil
	}
	slices.Sort(at)
	why := []string{
		lines(slices.Compact(at)) + " Optional: the controllers for ownerChain.",
		"Without these, a chain ends early; add what else controls such objects in your cluster.",
	}
	for _, r := range dynwatch.OwnerResources() {
		if n := len(rules); n > 0 && rules[n-1].APIGroups[0] == r.Group {
			rules[n-1].Resources = append(rules[n-1].Resources, r.Resource)
			continue
		}
		rules = append(rules, rule{APIGroups: []string{r.Group}, Resources: []string{r.Resource}, Verbs: []string{"get"}, why: why})
	}
	return rules
}

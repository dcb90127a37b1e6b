package catalog

import (
	"fmt"
	"slices"
	"strings"

	"github.com/informd/informd/pkg/event"
)

const (
	// matchesNothing and nothingLeft say why a wildcard has no resource.
	matchesNothing = "no resource of the API server matches"
	nothingLeft    = "no resource remains: the matching resources are excluded, have their own entry, or do not fit the namespaces or version"
	// maxNamed bounds how many resources beyond the limit a reason or a log line names.
	maxNamed = 10
)

// Matchless says that a wildcard matches nothing, not even what it excludes; else it is empty.
func (e *Expansion) Matchless(p Pattern, c *Catalog) string {
	if len(e.Notes[p.ID()].Running) > 0 || len(p.names(c, anyGroup)) > 0 {
		return ""
	}
	return matchesNothing
}

// Lacks says what is wrong with an expanded wildcard, nothing if it has all resources
// that it can have. Unsure: groups that it matches could not be asked.
func (e *Expansion) Lacks(p Pattern, c *Catalog) (reason string, unsure bool) {
	unknown := slices.DeleteFunc(c.Stale(), func(group string) bool { return !Glob(p.Group, group) || p.excludesGroup(group) })
	switch {
	case len(unknown) > 0:
		for i, group := range unknown {
			unknown[i] = event.GroupOrCore(group)
		}
		return fmt.Sprintf("discovery of API groups failed: %s; informd watches their matching resources once discovery works", strings.Join(unknown, ", ")), true
	case len(e.Notes[p.ID()].Running) > 0:
		return "", false
	}
	if nothing := e.Matchless(p, c); nothing != "" {
		return nothing, false
	}
	return nothingLeft, false
}

// AboveLimit returns why a wildcard does not watch some resources, "" if it watches all.
func (e *Expansion) AboveLimit(id string, maxWatches int) string {
	names := e.Beyond[id]
	if len(names) == 0 {
		return ""
	}
	return fmt.Sprintf("%d matching resources are not watched, because the limit is %d watches: %s; exclude resources, or raise kubernetes.maxWatches",
		len(names), maxWatches, SomeOf(names))
}

// SomeOf lists the first names and the number of the others.
func SomeOf(names []string) string {
	if len(names) <= maxNamed {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:maxNamed], ", "), len(names)-maxNamed)
}

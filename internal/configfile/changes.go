package configfile

import (
	"slices"

	"github.com/informd/informd/internal/config"
	"github.com/informd/informd/internal/when"
)

// checkOld refuses an expression about the object before where no event can have it: it
// would be null for ever.
func (r *checker) checkOld(m config.Match, x *when.Expression, path string, resources []config.Resource) {
	line, col, reads := x.ReadsOld()
	if !reads || !r.named(resources) {
		return
	}
	has := func(one config.Resource) bool {
		return one.MayBe(m.Group, m.Resource) && slices.Contains(one.Changes, config.ChangesOldObject)
	}
	meant := slices.IndexFunc(resources, func(one config.Resource) bool { return one.MayBe(m.Group, m.Resource) })
	if meant < 0 || slices.ContainsFunc(resources, has) {
		return // that none is meant is said elsewhere
	}
	for i := range resources {
		if r.Bad(config.Index("resources", i) + ".changes") {
			return
		}
	}
	at, message := r.inExpression(m.Condition, path, line, col,
		"no event that this match selects has oldObject, the object before the change: add oldObject to the changes of ")
	r.Add(at, path, "%s%s", message, config.Index("resources", meant))
}

package configfile

import (
	"reflect"
	"slices"
	"strings"

	"github.com/informd/informd/internal/config"
	"github.com/informd/informd/internal/display"
	"github.com/informd/informd/pkg/event"
	"github.com/informd/informd/pkg/sink"
)

// sink decodes one entry of sinks: the keys that every sink has, and those of
// its type, which share one mapping.
func (r *reading) sink(n *node, path string, s *config.Sink) {
	s.Begin(n.At)
	common := config.FieldsOf(reflect.ValueOf(s).Elem())
	if !r.isMapping(n, path, append(config.Keys(common), "and those of its type")) {
		return
	}
	var own []pair
	for _, p := range n.Pairs {
		if slices.Contains(config.Keys(common), p.Key) {
			r.member(n, p, path, common)
		} else {
			own = append(own, p)
		}
	}
	if !r.driver(n, path, s) {
		return // without the type nobody knows its keys
	}
	s.Options = s.Driver.New()
	options := reflect.ValueOf(s.Options)
	if options.Kind() != reflect.Pointer || options.Elem().Kind() != reflect.Struct {
		r.Add(n.At, path, "the options of type %s are no pointer to a struct; report this as a bug", s.Type)
		return
	}
	all := append(config.FieldsOf(options.Elem()), common...)
	for _, p := range own {
		r.member(n, p, path, all)
	}
	r.validate(n, path, s.Options)
}

// Types returns the names of sink types.
func Types(drivers []sink.Driver) []string {
	types := make([]string, len(drivers))
	for i, d := range drivers {
		types[i] = d.Type
	}
	return types
}

// driver finds the sink's driver by its type.
func (r *reading) driver(n *node, path string, s *config.Sink) bool {
	types := Types(r.drivers)
	if i := slices.Index(types, s.Type); i >= 0 {
		s.Driver = r.drivers[i]
		return true
	}
	at := config.Join(path, "type")
	switch p := n.Pair("type"); {
	case r.Bad(at):
	case p == nil || p.Value.Kind == kindNull:
		for _, other := range n.Pairs { // the other keys depend on the type
			if meant := display.DidYouMean(other.Key, []string{"type"}); meant != "" {
				r.Add(other.At, config.Join(path, other.Key), "unknown key%s", meant)
				return false
			}
		}
		r.Add(n.At, at, "is required: one of %s", strings.Join(types, ", "))
	default:
		r.Add(p.Value.At, at, "unknown sink type %s%s", config.Quote(s.Type), didYouMean(s.Type, types))
	}
	return false
}

// validate reports what the options' own check finds, where the key stands.
func (r *reading) validate(n *node, path string, options sink.Config) {
	var found []func() // reported at the end: several may be about one key
	for _, problem := range options.Validate() {
		within, message := r.source(path+"."+problem.Key, problem.Message)
		key, at := find(n, path, strings.TrimPrefix(within, path+"."))
		if problem.Key == "" || !r.Bad(key) {
			found = append(found, func() { r.Add(at, key, "%s", message) })
		}
	}
	for _, report := range found {
		report()
	}
}

// find follows a driver's key path ("headers.X-A", "urls[2]") below n as far as
// the file has it, and returns it as a path of the whole file, with the place of
// the last value found.
func find(n *node, path, rest string) (string, config.Pos) {
	for rest != "" {
		next, step, after := step(n, rest)
		if next == nil {
			return path + "." + rest, n.At
		}
		n, path, rest = next, path+step, strings.TrimPrefix(after, ".")
	}
	return path, n.At
}

// step returns the node that rest begins with the name of, the step as part of
// a path, and what is left of rest. The node is nil if there is none.
func step(n *node, rest string) (next *node, step, after string) {
	for i, item := range n.Items {
		if after, ok := strings.CutPrefix(rest, config.Index("", i)); ok {
			return item, config.Index("", i), after
		}
	}
	// A key may have dots in it itself, so the longest one is meant.
	longest := -1
	for _, p := range n.Pairs {
		tail, ok := strings.CutPrefix(rest, p.Key)
		if ok && len(p.Key) > longest && (tail == "" || tail[0] == '.' || tail[0] == '[') {
			longest, next, step, after = len(p.Key), p.Value, "."+config.Join("", p.Key), tail
		}
	}
	return next, step, after
}

// resource decodes an entry of resources: a mapping, or the name of a resource as kubectl
// takes it: "pods", "deployments.apps" or "deployments.v1.apps".
func (r *reading) resource(n *node, path string, entry *config.Resource) {
	if n.Kind != kindText || isGlued(n.Text) {
		r.object(n, path, reflect.ValueOf(entry).Elem())
	} else {
		entry.Begin(n.At)
		entry.Resource = n.Text
		r.places[path+".resource"] = n.At
	}
	if entry.Pos == (config.Pos{}) || r.Bad(path+".group") || r.Bad(path+".version") || r.Bad(path+".resource") {
		return
	}
	if entry.Group == config.CoreName {
		entry.Group = ""
	}
	group := n.Pair("group")
	r.splitName(path, entry, group != nil && group.Value.Kind != kindNull)
}

// splitName moves group and version out of a name like "deployments.v1.apps". What is not
// such a name stays as it is; [checker.checkName] explains it. HasGroup: the entry names its
// group, of which "" is the core group.
func (r *reading) splitName(path string, entry *config.Resource, hasGroup bool) {
	name, ok := config.ResourceNameOf(entry.Resource)
	if !ok {
		return
	}
	switch {
	case hasGroup && entry.Group != name.Group:
		r.fail(path+".resource", "%s names the group %s, and group names another: remove one of them", config.Quote(entry.Resource), event.GroupOrCore(name.Group))
	case entry.Version != "" && name.Version != "" && entry.Version != name.Version:
		r.fail(path+".resource", "%s names the version %s, and version names another: remove one of them", config.Quote(entry.Resource), name.Version)
	default:
		entry.Group, entry.Resource = name.Group, name.Resource
		if name.Version != "" {
			entry.Version = name.Version
		}
	}
}

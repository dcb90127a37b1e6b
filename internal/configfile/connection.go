package configfile

import (
	"fmt"
	"reflect"
	"strings"

	"github.com/informd/informd/internal/config"
	"github.com/informd/informd/pkg/connection"
	"github.com/informd/informd/pkg/sink"
)

// isServers reports whether dst takes a list of addresses, or one address as text.
func isServers(dst reflect.Value) bool { return dst.Type() == reflect.TypeFor[connection.Servers]() }

// servers decodes a list of addresses, or one address without its list. A variable may have several, with
// commas between them.
func (r *reading) servers(n *node, path string, f config.Field) {
	items, at := []*node{n}, func(int) string { return path }
	switch n.Kind {
	case kindMapping:
		r.Add(n.At, path, "must be a list of addresses, or one address, not %s", n.Kind)
		return
	case kindSequence:
		items, at = n.Items, func(i int) string { return config.Index(path, i) }
		for i, item := range items {
			if item.Kind == kindMapping { // the parser takes the colon of an address in braces for that of a key
				r.Add(item.At, at(i), `must be an address in quotes, as in ["nats://nats:4222"], not %s`, item.Kind)
				return
			}
		}
		r.list(n, path, f)
	default:
		f.Value.Set(reflect.MakeSlice(f.Value.Type(), 1, 1))
		r.scalar(n, path, config.Field{Value: f.Value.Index(0)})
	}
	var all []string
	for i, text := range f.Value.Interface().(connection.Servers).Reveal() { //nolint:forcetypeassert // isServers says so
		variable, ok := strings.CutPrefix(items[i].Text, reference)
		addresses := []string{text}
		if ok {
			addresses = strings.Split(text, ",")
		}
		for j, address := range addresses {
			one := splitAddress{path: at(i)}
			if ok {
				one.name = fmt.Sprintf("address %d of environment variable %s ", j+1, strings.TrimSuffix(variable, "}"))
			}
			r.split[config.Index(path, len(all))] = one
			all = append(all, address)
		}
	}
	f.Value.Set(reflect.ValueOf(connection.NewServers(all...)))
}

// splitAddress is where an address of a split list is in the file.
type splitAddress struct {
	path string
	// name begins a message about it: which address of which variable it is, empty if it is text in the file.
	name string
}

// source returns the key path and the message of a problem with a value. Those of an address
// in a variable name the key that has the variable, and the address in it.
func (r *reading) source(path, message string) (string, string) {
	one, ok := r.split[path]
	if !ok {
		return path, message
	}
	return one.path, one.name + message
}

// toggle decodes true or false in the place of a block of keys or of a list.
func (r *reading) toggle(n *node, path string, f config.Field, block sink.Toggle) {
	if n.Kind != kindBoolean {
		form := "list of " + strings.Join(f.Enum, ", ")
		if f.Value.Kind() == reflect.Struct {
			form = "mapping with the keys " + strings.Join(config.Keys(config.FieldsOf(f.Value)), ", ")
		}
		r.Add(n.At, path, "must be true, false or a %s, not %s", form, n.Kind)
		return
	}
	block.Toggle(n.Text == "true")
}

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

// oneServer makes a list of one element in f, and returns that element.
func oneServer(f config.Field) config.Field {
	f.Value.Set(reflect.MakeSlice(f.Value.Type(), 1, 1))
	return config.Field{Value: f.Value.Index(0)}
}

// servers decodes a list of addresses, or one address without its list.
func (r *reading) servers(n *node, path string, f config.Field) {
	switch n.Kind {
	case kindMapping:
		r.Add(n.At, path, "must be a list of addresses, or one address, not %s", n.Kind)
		return
	case kindSequence:
	default:
		r.scalar(n, path, oneServer(f))
		r.splitFile(f.Value, path, func(int) (string, string) { return path, n.Text })
		return
	}
	for i, item := range n.Items {
		if item.Kind == kindMapping { // the parser takes the colon of an address in braces for that of a key
			r.Add(item.At, config.Index(path, i), `must be an address in quotes, as in ["nats://nats:4222"], not %s`, item.Kind)
			return
		}
	}
	r.list(n, path, f)
	r.splitFile(f.Value, path, func(i int) (string, string) { return config.Index(path, i), n.Items[i].Text })
}

// splitAddress is where an address of a split list is in the file.
type splitAddress struct {
	path string
	// name is which address of which variable it is, empty if it is text in the file.
	name string
}

// splitFile splits the addresses of a list in the file that come from variables, and notes where
// each one is. At returns the key path and the text of an item.
func (r *reading) splitFile(dst reflect.Value, path string, at func(i int) (path, text string)) {
	fromVariable := func(i int) bool {
		_, text := at(i)
		return strings.HasPrefix(text, reference)
	}
	from := splitServers(dst, fromVariable)
	first := 0 // the index of the first address of the same item
	for k, i := range from {
		if from[first] != i {
			first = k
		}
		origin, text := at(i)
		one := splitAddress{path: origin}
		if fromVariable(i) {
			one.name = fmt.Sprintf("address %d of environment variable %s", k-first+1, strings.TrimSuffix(strings.TrimPrefix(text, reference), "}"))
		}
		r.split[config.Index(path, k)] = one
	}
}

// source returns the key path and the message of a problem with a value. Those of an address
// in a variable name the key that has the variable, and the address in it.
func (r *reading) source(path, message string) (string, string) {
	one, ok := r.split[path]
	if !ok {
		return path, message
	}
	return one.path, strings.TrimPrefix(one.name+" "+message, " ")
}

// splitServers splits the addresses that come from a variable, which has commas between
// them. FromVariable reports whether the address with an index does. It returns the former
// index of each address.
func splitServers(dst reflect.Value, fromVariable func(i int) bool) (from []int) {
	var all []string
	for i, one := range dst.Interface().(connection.Servers).Reveal() { //nolint:forcetypeassert // isServers says so
		parts := []string{one}
		if fromVariable(i) {
			parts = strings.Split(one, ",")
		}
		for range parts {
			from = append(from, i)
		}
		all = append(all, parts...)
	}
	dst.Set(reflect.ValueOf(connection.NewServers(all...)))
	return from
}

// toggle decodes true or false for a block of keys, which is no mapping.
func (r *reading) toggle(n *node, path string, block sink.Toggle) {
	if n.Kind != kindBoolean {
		all := config.Keys(config.FieldsOf(reflect.ValueOf(block).Elem()))
		r.Add(n.At, path, "must be true, false or a mapping with the keys %s, not %s", strings.Join(all, ", "), n.Kind)
		return
	}
	block.Toggle(n.Text == "true")
}

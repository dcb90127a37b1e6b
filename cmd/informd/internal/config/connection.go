package config

import (
	"reflect"
	"strings"

	"github.com/informd/informd/pkg/connection"
	"github.com/informd/informd/pkg/sink"
)

// isServers reports whether dst takes a list of addresses, or one address as text.
func isServers(dst reflect.Value) bool { return dst.Type() == reflect.TypeFor[connection.Servers]() }

// oneServer makes a list of one element in f, and returns that element.
func oneServer(f field) field {
	f.value.Set(reflect.MakeSlice(f.value.Type(), 1, 1))
	return field{value: f.value.Index(0)}
}

// servers decodes a list of addresses, or one address without its list.
func (r *reading) servers(n *node, path string, f field) {
	switch n.kind {
	case mapping:
		r.add(n.at, path, "must be a list of addresses, or one address, not %s", n.kind)
		return
	case sequence:
	default:
		r.scalar(n, path, oneServer(f))
		splitServers(f.value, func(int) bool { return strings.HasPrefix(n.text, reference) })
		return
	}
	for i, item := range n.items {
		if item.kind == mapping { // the parser takes the colon of an address in braces for that of a key
			r.add(item.at, index(path, i), `must be an address in quotes, as in ["nats://nats:4222"], not %s`, item.kind)
			return
		}
	}
	r.list(n, path, f)
	splitServers(f.value, func(i int) bool { return strings.HasPrefix(n.items[i].text, reference) })
}

// splitServers splits the addresses that come from a variable, which has commas between
// them. FromVariable reports whether the address with an index does.
func splitServers(dst reflect.Value, fromVariable func(i int) bool) {
	var all []string
	for i, one := range dst.Interface().(connection.Servers).Reveal() { //nolint:forcetypeassert // isServers says so
		if fromVariable(i) {
			all = append(all, strings.Split(one, ",")...)
		} else {
			all = append(all, one)
		}
	}
	dst.Set(reflect.ValueOf(connection.NewServers(all...)))
}

// toggle decodes true or false for a block of keys, which is no mapping.
func (r *reading) toggle(n *node, path string, block sink.Toggle) {
	if n.kind != boolean {
		all := keys(fieldsOf(reflect.ValueOf(block).Elem()))
		r.add(n.at, path, "must be true, false or a mapping with the keys %s, not %s", strings.Join(all, ", "), n.kind)
		return
	}
	block.Toggle(n.text == "true")
}

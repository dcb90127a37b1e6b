package configfile

import (
	"encoding"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/informd/informd/internal/config"
	"github.com/informd/informd/pkg/connection"
	"github.com/informd/informd/pkg/sink"
)

// object is a JSON object, in most cases a schema or the properties of one.
type object = map[string]any

// The patterns of durations and of sizes in the schema.
const (
	DurationPattern = `^[+-]?(([0-9]+(\.[0-9]*)?|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h))+$`
	SizePattern     = `^\s*[0-9]+\s*(B|KiB|MiB|GiB|TiB)?\s*$`
)

// minimal is a config with nothing but what is required: read, it shows the defaults.
const minimal = `resources: [{resource: pods}]
sinks: [{name: out, type: stdout}]
`

// Describe returns the description of a field of a struct of settings, or "".
type Describe func(of reflect.Type, field reflect.StructField) string

// Schema returns the JSON Schema (draft 2020-12) of the config file of a program with those sink
// types, stdout among them. It says what a key may hold by its form.
func Schema(drivers []sink.Driver, describe Describe) (map[string]any, error) {
	defaults, err := Parse("minimal", []byte(minimal), drivers)
	if err != nil {
		return nil, fmt.Errorf("read the defaults: %w", err)
	}
	g := &generator{drivers: drivers, describe: describe}
	whole := g.mapping(reflect.ValueOf(defaults).Elem(), "")
	whole["type"] = "object" // with nothing in it it is a mistake
	return whole, nil
}

// generator makes schemas of Go values, which have the defaults in them.
type generator struct {
	drivers  []sink.Driver
	describe Describe
}

// mapping is the schema of a struct.
func (g *generator) mapping(value reflect.Value, path string) object {
	schema := object{"type": []string{"object", "null"}, "additionalProperties": false, "properties": g.properties(value, path)}
	required := slices.DeleteFunc(config.FieldsOf(value), func(f config.Field) bool { return !f.Required })
	if len(required) > 0 {
		schema["required"], schema["type"] = config.Keys(required), "object"
	}
	if value.Type() == reflect.TypeFor[config.Sink]() {
		g.sinkTypes(schema)
	}
	if value.Type() == reflect.TypeFor[config.Resource]() {
		schema["type"] = []string{"object", "string"} // a name as kubectl takes it
	}
	return schema
}

// properties are those of the keys of a struct.
func (g *generator) properties(value reflect.Value, path string) object {
	all := object{}
	for _, f := range config.FieldsOf(value) {
		at := strings.TrimPrefix(path+"."+f.Key, ".")
		schema := g.schema(f.Value, at)
		if f.Absent != "" {
			schema["minItems"] = 1
		}
		if f.Enum != nil {
			constrain(schema, f.Enum)
		}
		schema = alternatives(schema, f.Value.Type())
		if text := g.describe(f.Of, f.Declared); text != "" {
			schema["description"] = text
		}
		// That of cluster depends on the sinks: the description has it.
		if known := fallback(f.Value); known != nil && !f.Required && at != "cluster" {
			schema["default"] = known
		}
		all[f.Key] = schema
	}
	return all
}

// alternatives adds the other form of a value: a list as its only item, a block of keys
// or control as true or false.
func alternatives(schema object, t reflect.Type) object {
	item, list := schema["items"].(object)
	switch {
	case list && (t == reflect.TypeFor[config.OneOrMore]() || t == reflect.TypeFor[connection.Servers]()):
		return object{"anyOf": []object{schema, item}}
	case reflect.PointerTo(t).Implements(reflect.TypeFor[sink.Toggle]()):
		return object{"anyOf": []object{schema, {"type": "boolean"}}}
	}
	return schema
}

// constrain says which values a text, or each of a list, may be.
func constrain(schema object, values []string) {
	if items, ok := schema["items"].(object); ok {
		schema = items
	}
	schema["enum"] = values
}

// schema is the schema of any value.
func (g *generator) schema(value reflect.Value, path string) object {
	t := value.Type()
	switch {
	case t.Kind() == reflect.Pointer:
		return g.schema(reflect.New(t.Elem()).Elem(), path)
	case t == reflect.TypeFor[time.Duration]():
		return object{"type": []string{"string", "integer"}, "pattern": DurationPattern, "maximum": 0, "minimum": 0}
	case t == reflect.TypeFor[sink.ByteSize]():
		return object{"type": []string{"string", "integer"}, "pattern": SizePattern, "minimum": 0}
	case reflect.PointerTo(t).Implements(reflect.TypeFor[encoding.TextUnmarshaler]()):
		return object{"type": []string{"string", "number", "boolean"}}
	}
	switch t.Kind() {
	case reflect.Struct:
		return g.mapping(value, path)
	case reflect.Slice:
		return g.list(value, path)
	case reflect.Map:
		return object{"type": []string{"object", "null"}, "additionalProperties": g.schema(reflect.New(t.Elem()).Elem(), path)}
	case reflect.Bool:
		return object{"type": "boolean"}
	case reflect.String:
		return object{"type": "string"}
	case reflect.Float32, reflect.Float64:
		return object{"type": "number"}
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return object{"type": "integer", "minimum": 0}
	default:
		return object{"type": "integer"}
	}
}

// list is the schema of a slice. The first element, if there is one, has the defaults.
func (g *generator) list(value reflect.Value, path string) object {
	element := reflect.New(value.Type().Elem()).Elem()
	if value.Len() > 0 {
		element = value.Index(0)
	}
	schema := object{"type": "array", "items": g.schema(element, path+"[]")}
	switch path {
	case "resources", "sinks":
		schema["minItems"] = 1
	case "sinks[].match[].ops":
		constrain(schema, config.NamesOf(config.ObjectOp))
	}
	return schema
}

// sinkTypes completes the schema of an entry of sinks, whose other keys depend on its
// type. Each type lists the common keys as well: a tool that knows no more than
// additionalProperties then knows all that an entry may have.
func (g *generator) sinkTypes(schema object) {
	common, _ := schema["properties"].(object)
	var conditions []object
	for _, d := range g.drivers {
		conditions = append(conditions, SinkType(d, common, g.describe))
	}
	if name, ok := common["type"].(object); ok {
		name["enum"] = Types(g.drivers)
	}
	delete(schema, "additionalProperties")
	schema["allOf"] = conditions
}

// SinkType returns the part of the schema that says which keys an entry of sinks has if it is of
// the driver's type. Common are the properties of all types.
func SinkType(d sink.Driver, common map[string]any, describe Describe) map[string]any {
	options, g := d.New(), &generator{describe: describe}
	all := g.properties(reflect.ValueOf(options).Elem(), "sinks[]("+d.Type+")")
	for key := range common {
		all[key] = true
	}
	then := object{"properties": all, "additionalProperties": false}
	if keys := missing(options); keys != nil {
		then["required"] = keys
	}
	return object{
		"if":   object{"properties": object{"type": object{"const": d.Type}}, "required": []string{"type"}},
		"then": then,
	}
}

// missing are the keys without which a sink's options cannot be: what is wrong with
// the values that they have by default is that these are not set.
func missing(options sink.Config) []string {
	var keys []string
	for _, p := range options.Validate() {
		if p.Key != "" {
			keys = append(keys, p.Key)
		}
	}
	slices.Sort(keys)
	return slices.Compact(keys)
}

// fallback is a default as it is written in a config, nil if there is none to show.
func fallback(value reflect.Value) any {
	if value.IsZero() {
		if value.Kind() == reflect.Bool {
			return false
		}
		return nil
	}
	switch known := value.Interface().(type) {
	case time.Duration:
		return duration(known)
	case sink.Secret:
		return nil
	case fmt.Stringer:
		return known.String()
	}
	switch value.Kind() {
	case reflect.Struct, reflect.Slice, reflect.Map, reflect.Pointer:
		return nil
	default:
		return value.Interface()
	}
}

// duration writes a duration without what is 0 at its end.
func duration(d time.Duration) string {
	text := d.String()
	for _, end := range []string{"m0s", "h0m"} {
		if strings.HasSuffix(text, end) {
			text = text[:len(text)-2]
		}
	}
	return text
}

package config

import (
	"encoding"
	"reflect"
	"strings"
	"time"
)

// Field is one key of a struct.
type Field struct {
	Key   string
	Value reflect.Value
	Enum  []string // what a string may be; nil means anything
	// Required: a mapping without the key is a mistake.
	Required bool
	// Absent is what a list without its key means, if an empty one is refused.
	Absent string
	// Of is the struct that declares it, as Declared.
	Of       reflect.Type
	Declared reflect.StructField
}

// FieldsOf lists the keys of a struct: its fields with a yaml tag, and those of
// embedded structs that are tagged inline.
func FieldsOf(dst reflect.Value) []Field {
	var all []Field
	for i := range dst.NumField() {
		f := dst.Type().Field(i)
		key, option, _ := strings.Cut(f.Tag.Get("yaml"), ",")
		switch {
		case option == "inline" && f.Type.Kind() == reflect.Struct:
			all = append(all, FieldsOf(dst.Field(i))...)
			continue
		case key == "" || key == "-" || !f.IsExported():
			continue
		}
		_, required := f.Tag.Lookup("required")
		one := Field{Key: key, Value: dst.Field(i), Required: required, Absent: f.Tag.Get("absent"), Of: dst.Type(), Declared: f}
		if enum := f.Tag.Get("enum"); enum != "" {
			one.Enum = strings.Split(enum, ",")
		}
		all = append(all, one)
	}
	return all
}

// Leaves lists the keys of a struct at a path, and of the structs in it, that are no structs with keys
// themselves. Key of each is its whole path.
func Leaves(dst reflect.Value, path string) (all []Field) {
	for _, f := range FieldsOf(dst) {
		if f.Key = Join(path, f.Key); f.Value.Kind() == reflect.Struct && !IsScalar(f.Value) {
			all = append(all, Leaves(f.Value, f.Key)...)
			continue
		}
		all = append(all, f)
	}
	return all
}

// Keys returns the names of keys.
func Keys(all []Field) []string {
	names := make([]string, len(all))
	for i, f := range all {
		names[i] = f.Key
	}
	return names
}

// IsScalar reports whether a config may have a value of the type of dst.
func IsScalar(dst reflect.Value) bool { return ScalarName(dst) != "" }

// ScalarName says in a message what a scalar must be; empty for other types.
func ScalarName(dst reflect.Value) string {
	if _, ok := reflect.TypeAssert[encoding.TextUnmarshaler](dst.Addr()); ok {
		return "a single value"
	}
	switch kind := dst.Kind(); {
	case IsDuration(dst):
		return "a duration, as in 10s"
	case kind == reflect.String:
		return "text"
	case kind == reflect.Bool:
		return "true or false"
	case dst.CanInt(), dst.CanUint():
		return "a whole number"
	case dst.CanFloat():
		return "a number"
	default:
		return ""
	}
}

// IsDuration reports whether dst is a time.Duration.
func IsDuration(dst reflect.Value) bool { return dst.Type() == reflect.TypeFor[time.Duration]() }

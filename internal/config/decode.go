package config

import (
	"encoding"
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/informd/informd/internal/config/internal/document"
	"github.com/informd/informd/pkg/sink"
)

// maxValues bounds the values that are decoded, which aliases can multiply.
const maxValues = 100_000

// field is one key of a struct.
type field struct {
	key   string
	value reflect.Value
	enum  []string // what a string may be; nil means anything
	// absent is what a list without its key means, if an empty one is refused.
	absent string
}

// fieldsOf lists the keys of a struct: its fields with a yaml tag, and those of
// embedded structs that are tagged inline.
func fieldsOf(dst reflect.Value) []field {
	var all []field
	for i := range dst.NumField() {
		f := dst.Type().Field(i)
		key, option, _ := strings.Cut(f.Tag.Get("yaml"), ",")
		switch {
		case option == "inline" && f.Type.Kind() == reflect.Struct:
			all = append(all, fieldsOf(dst.Field(i))...)
			continue
		case key == "" || key == "-" || !f.IsExported():
			continue
		}
		one := field{key: key, value: dst.Field(i), absent: f.Tag.Get("absent")}
		if enum := f.Tag.Get("enum"); enum != "" {
			one.enum = strings.Split(enum, ",")
		}
		all = append(all, one)
	}
	return all
}

func keys(all []field) []string {
	names := make([]string, len(all))
	for i, f := range all {
		names[i] = f.key
	}
	return names
}

// value decodes n into f. What is null keeps its default.
func (r *reading) value(n *document.Node, path string, f field) {
	if !r.visit(n, path) || n.Kind == document.Broken {
		return
	}
	if f.absent != "" && (n.Kind == document.Null || n.Kind == document.Sequence && len(n.Items) == 0) {
		r.Add(n.At, path, "is empty: remove the key for %s, or list what you want", f.absent)
		return
	}
	if n.Kind == document.Null {
		return
	}
	if s, ok := reflect.TypeAssert[*Sink](f.value.Addr()); ok {
		r.sink(n, path, s)
		return
	}
	if entry, ok := reflect.TypeAssert[*Resource](f.value.Addr()); ok {
		r.resource(n, path, entry)
		return
	}
	switch kind := f.value.Kind(); {
	case isScalar(f.value):
		r.scalar(n, path, f)
	case kind == reflect.Pointer:
		pointed := reflect.New(f.value.Type().Elem())
		f.value.Set(pointed)
		f.value = pointed.Elem()
		r.value(n, path, f)
	case kind == reflect.Struct:
		if block, ok := reflect.TypeAssert[sink.Toggle](f.value.Addr()); ok && n.Kind != document.Mapping {
			r.toggle(n, path, block)
			return
		}
		r.object(n, path, f.value)
	case kind == reflect.Slice && f.value.Type() == reflect.TypeFor[Control]() && n.Kind != document.Sequence:
		r.control(n, path, f.value)
	case isServers(f.value):
		r.servers(n, path, f)
	case kind == reflect.Slice && f.value.Type() == reflect.TypeFor[OneOrMore]() && n.Kind != document.Sequence:
		r.oneOrMore(n, path, f)
	case kind == reflect.Slice:
		r.list(n, path, f)
	case kind == reflect.Map:
		r.table(n, path, f)
	default:
		r.Add(n.At, path, "has the Go type %s, which a config cannot hold; report this as a bug", f.value.Type())
	}
}

// visit remembers where path is and counts.
func (r *reading) visit(n *document.Node, path string) bool {
	r.visited++
	if r.visited == maxValues+1 {
		r.Add(n.At, "", "aliases expand to more than %d values", maxValues)
	}
	if r.visited > maxValues {
		return false
	}
	r.places[path] = n.At
	return true
}

// object decodes a mapping into a struct.
func (r *reading) object(n *document.Node, path string, dst reflect.Value) {
	if e, ok := reflect.TypeAssert[interface{ begin(at Pos) }](dst.Addr()); ok {
		e.begin(n.At)
	}
	all := fieldsOf(dst)
	if !r.isMapping(n, path, keys(all)) {
		return
	}
	for _, p := range n.Pairs {
		r.member(n, p, path, all)
	}
}

func (r *reading) isMapping(n *document.Node, path string, keys []string) bool {
	switch {
	case n.Kind == document.Mapping:
		return true
	case n.Kind == document.Text && document.Glued(n.Text):
		r.Add(n.At, path, "%s", document.SpaceMissing)
	default:
		r.Add(n.At, path, "must be a mapping with the keys %s, not %s", strings.Join(keys, ", "), n.Kind)
	}
	return false
}

// member decodes a pair of the mapping in into the field of that key.
func (r *reading) member(in *document.Node, p document.Pair, path string, all []field) {
	i := slices.IndexFunc(all, func(f field) bool { return f.key == p.Key })
	if i < 0 {
		r.unknown(in, p, path, keys(all))
		return
	}
	r.value(p.Value, document.Join(path, p.Key), all[i])
}

// unknown reports a key that does not exist. The key that was meant is not
// reported as missing as well; mistakes in it are, if it is there.
func (r *reading) unknown(in *document.Node, p document.Pair, path string, known []string) {
	at := document.Join(path, p.Key)
	if to, ok := newName(at, known); ok {
		r.renamed(in, p, path, to)
		return
	}
	meant, hint, ok := habit(p.Key, known)
	if !ok && document.Glued(p.Key) {
		hint, ok = document.SpaceMissing, true
		meant, _ = Nearest(p.Key, known)
	}
	if ok {
		r.Add(p.At, at, "unknown key: %s", hint)
	} else {
		r.Add(p.At, at, "unknown key %s", didYouMean(p.Key, known))
		meant, ok = Nearest(p.Key, known)
	}
	if right := in.Pair(meant); ok && (right == nil || right.Value.Kind == document.Null) {
		r.Suppress(document.Join(path, meant))
	}
}

// list decodes a sequence into a slice.
func (r *reading) list(n *document.Node, path string, f field) {
	if n.Kind == document.Mapping && len(n.Pairs) > 0 && document.Glued(n.Pairs[0].Key) {
		r.Add(n.Pairs[0].At, path, "%s", document.SpaceMissing)
		return
	}
	if n.Kind != document.Sequence {
		r.Add(n.At, path, "must be a list, not %s", n.Kind)
		return
	}
	out := reflect.MakeSlice(f.value.Type(), len(n.Items), len(n.Items))
	for i, item := range n.Items {
		at := document.Index(path, i)
		if item.Kind == document.Null {
			r.Add(item.At, at, "is empty: remove it or fill it in")
			continue
		}
		r.value(item, at, field{value: out.Index(i), enum: f.enum})
	}
	f.value.Set(out)
}

// oneOrMore decodes an item that stands without its list.
func (r *reading) oneOrMore(n *document.Node, path string, f field) {
	switch {
	case n.Kind == document.Text:
	case f.enum == nil:
		r.Add(n.At, path, "must be text, or a list of texts, not %s", n.Kind)
		return
	default:
		r.Add(n.At, path, "must be one of %s, or a list of them, not %s", strings.Join(f.enum, ", "), n.Kind)
		return
	}
	f.value.Set(reflect.MakeSlice(f.value.Type(), 1, 1))
	r.scalar(n, path, field{value: f.value.Index(0), enum: f.enum})
}

// table decodes a mapping into a Go map with string keys.
func (r *reading) table(n *document.Node, path string, f field) {
	if n.Kind != document.Mapping {
		r.Add(n.At, path, "must be a mapping, not %s", n.Kind)
		return
	}
	out := reflect.MakeMapWithSize(f.value.Type(), len(n.Pairs))
	for _, p := range n.Pairs {
		if p.Value.Kind == document.Null {
			r.Add(p.At, document.Join(path, p.Key), `is empty: remove it, or write "" for empty text`)
			continue
		}
		value := reflect.New(f.value.Type().Elem()).Elem()
		r.value(p.Value, document.Join(path, p.Key), field{value: value, enum: f.enum})
		out.SetMapIndex(reflect.ValueOf(p.Key).Convert(f.value.Type().Key()), value)
	}
	f.value.Set(out)
}

// scalar decodes text, a number or a boolean.
func (r *reading) scalar(n *document.Node, path string, f field) {
	if n.Kind == document.Mapping || n.Kind == document.Sequence {
		r.Add(n.At, path, "must be %s, not %s", scalarName(f.value), n.Kind)
		return
	}
	if f.enum != nil && n.Kind != document.Text {
		r.Add(n.At, path, "must be one of %s, not %s", strings.Join(f.enum, ", "), n.Kind)
		return
	}
	if to, ok := renamedValue(path, n.Text); ok {
		r.Add(n.At, path, "%s was renamed: use %s", document.Quote(n.Text), to)
		return
	}
	if isPlainString(f.value) && n.Kind != document.Text {
		r.Add(n.At, path, "must be text, not %s: put it in quotes, %q", n.Kind, n.Text)
		return
	}
	if message := setScalar(f, n.Text); message != "" {
		r.Add(n.At, path, "%s", message)
	}
}

// isScalar reports whether [setScalar] knows the type of dst.
func isScalar(dst reflect.Value) bool { return scalarName(dst) != "" }

// scalarName says in a message what a scalar must be; empty for other types.
func scalarName(dst reflect.Value) string {
	if _, ok := reflect.TypeAssert[encoding.TextUnmarshaler](dst.Addr()); ok {
		return "a single value"
	}
	switch kind := dst.Kind(); {
	case isDuration(dst):
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

func isDuration(dst reflect.Value) bool { return dst.Type() == reflect.TypeFor[time.Duration]() }

func isPlainString(dst reflect.Value) bool {
	_, ok := reflect.TypeAssert[encoding.TextUnmarshaler](dst.Addr())
	return !ok && dst.Kind() == reflect.String
}

// badReference returns what is wrong with a secret's reference to the environment, or "".
func badReference(secret *sink.Secret, text string) string {
	switch {
	case secret.Reveal() == text && strings.Contains(text, reference):
		return reference + "NAME} is the whole value or nothing, and NAME has letters, digits and _: put all of the text into the variable"
	case secret.Reveal() == "" && strings.HasPrefix(text, reference):
		// An empty token would turn the login off without a word.
		return "environment variable " + strings.TrimSuffix(strings.TrimPrefix(text, reference), "}") + " is empty: set it to a value, or remove the key"
	case bareReference().MatchString(text):
		return text + " is not a reference to the environment: write " + strings.Replace(text, "${", reference, 1)
	}
	return ""
}

// setScalar sets f to what text says, and returns what is wrong with it, or "".
func setScalar(f field, text string) string {
	dst := f.value
	if isServers(dst) {
		return setScalar(oneServer(f), text)
	}
	if u, ok := reflect.TypeAssert[encoding.TextUnmarshaler](dst.Addr()); ok {
		if err := u.UnmarshalText([]byte(text)); err != nil {
			return err.Error()
		}
		if secret, ok := u.(*sink.Secret); ok {
			return badReference(secret, text)
		}
		return ""
	}
	var err error
	switch kind := dst.Kind(); {
	case isDuration(dst):
		var d time.Duration
		d, err = time.ParseDuration(text)
		dst.SetInt(int64(d))
		if hours, ok := inHours(text); ok {
			return document.Quote(text) + " is not a duration: there is no unit for days, write " + hours
		}
		if err != nil {
			return document.Quote(text) + " is not a duration: numbers with units, as in 10s or 1h30m"
		}
	case kind == reflect.String:
		return setString(f, text)
	case kind == reflect.Bool:
		dst.SetBool(text == "true")
		if text != "true" && text != "false" {
			return document.Quote(text) + " is neither true nor false" + meantBool(text)
		}
	case dst.CanInt():
		var n int64
		n, err = strconv.ParseInt(text, 10, dst.Type().Bits())
		dst.SetInt(n)
	case dst.CanUint():
		var n uint64
		n, err = strconv.ParseUint(text, 10, dst.Type().Bits())
		dst.SetUint(n)
	default:
		var n float64
		n, err = strconv.ParseFloat(text, dst.Type().Bits())
		dst.SetFloat(n)
	}
	if err != nil {
		return fmt.Sprintf("%s is not %s in the range of this key", document.Quote(text), scalarName(dst))
	}
	return ""
}

// reference is how a reference to an environment variable begins.
const reference = "${env:"

// bareReference is what a shell takes for one.
func bareReference() *regexp.Regexp { return regexp.MustCompile(`^\$\{[A-Za-z_][A-Za-z0-9_]*\}$`) }

// inHours returns a whole number of days, "7d", in the unit that there is.
func inHours(text string) (string, bool) {
	days, ok := strings.CutSuffix(text, "d")
	n, err := strconv.ParseUint(days, 10, 16)
	return fmt.Sprintf("%dh", n*24), ok && err == nil
}

// setString refuses a reference to the environment: only a sink.Secret takes
// one, anywhere else it would be taken literally.
func setString(f field, text string) string {
	if strings.Contains(text, reference) {
		return document.Quote(text) + ": only secrets are read from the environment; write the value itself"
	}
	if f.enum != nil && !slices.Contains(f.enum, text) {
		return "unknown value " + document.Quote(text) + " " + didYouMean(text, f.enum)
	}
	f.value.SetString(text)
	return ""
}

// meantBool is the end of a message about a text that YAML 1.1 reads as true or false.
func meantBool(text string) string {
	switch strings.ToLower(text) {
	case "yes", "y", "on", "true":
		return ": write true"
	case "no", "n", "off", "false":
		return ": write false"
	}
	return ""
}

package configfile

import (
	"encoding"
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/informd/informd/internal/config"
	"github.com/informd/informd/internal/display"
	"github.com/informd/informd/pkg/sink"
)

// maxValues bounds the values that are decoded, which aliases can multiply.
const maxValues = 100_000

// value decodes n into f. What is null keeps its default.
func (r *reading) value(n *node, path string, f config.Field) {
	if !r.visit(n, path) || n.Kind == kindBroken {
		return
	}
	if f.Absent != "" && (n.Kind == kindNull || n.Kind == kindSequence && len(n.Items) == 0) {
		r.Add(n.At, path, "is empty: remove the key for %s, or list what you want", f.Absent)
		return
	}
	if n.Kind == kindNull {
		return
	}
	full := kindSequence // what a toggle stands for
	if f.Value.Kind() == reflect.Struct {
		full = kindMapping
	}
	switch dst := f.Value.Addr().Interface().(type) {
	case *config.Sink:
		r.sink(n, path, dst)
		return
	case *config.Resource:
		r.resource(n, path, dst)
		return
	case sink.Toggle:
		if n.Kind != full {
			r.toggle(n, path, f, dst)
			return
		}
	}
	switch kind := f.Value.Kind(); {
	case config.IsScalar(f.Value):
		r.scalar(n, path, f)
	case kind == reflect.Pointer:
		pointed := reflect.New(f.Value.Type().Elem())
		f.Value.Set(pointed)
		f.Value = pointed.Elem()
		r.value(n, path, f)
	case kind == reflect.Struct:
		r.object(n, path, f.Value)
	case isServers(f.Value):
		r.servers(n, path, f)
	case kind == reflect.Slice && f.Value.Type() == reflect.TypeFor[config.OneOrMore]() && n.Kind != kindSequence:
		r.oneOrMore(n, path, f)
	case kind == reflect.Slice:
		r.list(n, path, f)
	case kind == reflect.Map:
		r.table(n, path, f)
	default:
		r.Add(n.At, path, "has the Go type %s, which a config cannot hold; report this as a bug", f.Value.Type())
	}
}

// visit remembers where path is and counts.
func (r *reading) visit(n *node, path string) bool {
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
func (r *reading) object(n *node, path string, dst reflect.Value) {
	if e, ok := reflect.TypeAssert[interface{ Begin(at config.Pos) }](dst.Addr()); ok {
		e.Begin(n.At)
	}
	all := config.FieldsOf(dst)
	if !r.isMapping(n, path, config.Keys(all)) {
		return
	}
	for _, p := range n.Pairs {
		r.member(n, p, path, all)
	}
}

func (r *reading) isMapping(n *node, path string, keys []string) bool {
	switch {
	case n.Kind == kindMapping:
		return true
	case n.Kind == kindText && isGlued(n.Text):
		r.Add(n.At, path, "%s", spaceMissing)
	default:
		r.Add(n.At, path, "must be a mapping with the keys %s, not %s", strings.Join(keys, ", "), n.Kind)
	}
	return false
}

// member decodes a pair of the mapping in into the field of that key.
func (r *reading) member(in *node, p pair, path string, all []config.Field) {
	i := slices.IndexFunc(all, func(f config.Field) bool { return f.Key == p.Key })
	if i < 0 {
		r.unknown(in, p, path, config.Keys(all))
		return
	}
	r.value(p.Value, config.Join(path, p.Key), all[i])
}

// unknown reports a key that does not exist. The key that was meant is not
// reported as missing as well; mistakes in it are, if it is there.
func (r *reading) unknown(in *node, p pair, path string, known []string) {
	at := config.Join(path, p.Key)
	meant, hint, ok := habit(p.Key, known)
	if !ok && isGlued(p.Key) {
		hint, ok = spaceMissing, true
		meant, _ = display.Nearest(p.Key, known)
	}
	if ok {
		r.Add(p.At, at, "unknown key: %s", hint)
	} else {
		r.Add(p.At, at, "unknown key%s", didYouMean(p.Key, known))
		meant, ok = display.Nearest(p.Key, known)
	}
	if right := in.Pair(meant); ok && (right == nil || right.Value.Kind == kindNull) {
		r.Suppress(config.Join(path, meant))
	}
}

// list decodes a sequence into a slice.
func (r *reading) list(n *node, path string, f config.Field) {
	if n.Kind == kindMapping && len(n.Pairs) > 0 && isGlued(n.Pairs[0].Key) {
		r.Add(n.Pairs[0].At, path, "%s", spaceMissing)
		return
	}
	if n.Kind != kindSequence {
		r.Add(n.At, path, "must be a list, not %s", n.Kind)
		return
	}
	out := reflect.MakeSlice(f.Value.Type(), len(n.Items), len(n.Items))
	for i, item := range n.Items {
		at := config.Index(path, i)
		if item.Kind == kindNull {
			r.Add(item.At, at, "is empty: remove it or fill it in")
			continue
		}
		r.value(item, at, config.Field{Value: out.Index(i), Enum: f.Enum})
	}
	f.Value.Set(out)
}

// oneOrMore decodes an item that stands without its list.
func (r *reading) oneOrMore(n *node, path string, f config.Field) {
	switch {
	case n.Kind == kindText:
	case f.Enum == nil:
		r.Add(n.At, path, "must be text, or a list of texts, not %s", n.Kind)
		return
	default:
		r.Add(n.At, path, "must be one of %s, or a list of them, not %s", strings.Join(f.Enum, ", "), n.Kind)
		return
	}
	f.Value.Set(reflect.MakeSlice(f.Value.Type(), 1, 1))
	r.scalar(n, path, config.Field{Value: f.Value.Index(0), Enum: f.Enum})
}

// table decodes a mapping into a Go map with string keys.
func (r *reading) table(n *node, path string, f config.Field) {
	if n.Kind != kindMapping {
		r.Add(n.At, path, "must be a mapping, not %s", n.Kind)
		return
	}
	out := reflect.MakeMapWithSize(f.Value.Type(), len(n.Pairs))
	for _, p := range n.Pairs {
		if p.Value.Kind == kindNull {
			r.Add(p.At, config.Join(path, p.Key), `is empty: remove it, or write "" for empty text`)
			continue
		}
		value := reflect.New(f.Value.Type().Elem()).Elem()
		r.value(p.Value, config.Join(path, p.Key), config.Field{Value: value, Enum: f.Enum})
		out.SetMapIndex(reflect.ValueOf(p.Key).Convert(f.Value.Type().Key()), value)
	}
	f.Value.Set(out)
}

// scalar decodes text, a number or a boolean.
func (r *reading) scalar(n *node, path string, f config.Field) {
	if n.Kind == kindMapping || n.Kind == kindSequence {
		r.Add(n.At, path, "must be %s, not %s", config.ScalarName(f.Value), n.Kind)
		return
	}
	if f.Enum != nil && n.Kind != kindText {
		r.Add(n.At, path, "must be one of %s, not %s", strings.Join(f.Enum, ", "), n.Kind)
		return
	}
	if path == "journal.type" && (n.Text == "embedded" || n.Text == "nats") {
		r.Add(n.At, path, "%s was replaced by %s, the default: informd has a log of its own in journal.dir, and begins it with a snapshot; for high availability, set replicas",
			config.Quote(n.Text), config.JournalLog)
		return
	}
	if config.ScalarName(f.Value) == "text" && n.Kind != kindText {
		r.Add(n.At, path, "must be text, not %s: put it in quotes, %q", n.Kind, n.Text)
		return
	}
	if message := setScalar(f, n.Text); message != "" {
		r.Add(n.At, path, "%s", message)
	}
}

// badReference returns what is wrong with a secret's reference to the environment, or "".
func badReference(secret *sink.Secret, text string) string {
	switch {
	case secret.Reveal() == text && strings.Contains(text, reference):
		return reference + "NAME} is the whole value or nothing, and NAME has letters, digits and _: put all of the text into the variable"
	case secret.Reveal() == "" && strings.HasPrefix(text, reference):
		// An empty token would turn the login off without a word.
		return "environment variable " + strings.TrimSuffix(strings.TrimPrefix(text, reference), "}") + " is empty: set it to a value, or remove the key"
	case bareReference.MatchString(text):
		return text + " is not a reference to the environment: write " + strings.Replace(text, "${", reference, 1)
	}
	return ""
}

// reference is how a reference to an environment variable begins.
const reference = "${env:"

// bareReference is what a shell takes for one.
var bareReference = regexp.MustCompile(`^\$\{[A-Za-z_][A-Za-z0-9_]*\}$`)

// inHours returns a whole number of days, "7d", in the unit that there is.
func inHours(text string) (string, bool) {
	days, ok := strings.CutSuffix(text, "d")
	n, err := strconv.ParseUint(days, 10, 16)
	return fmt.Sprintf("%dh", n*24), ok && err == nil
}

// setString refuses a reference to the environment: only a sink.Secret takes
// one, anywhere else it would be taken literally.
func setString(f config.Field, text string) string {
	if strings.Contains(text, reference) {
		return config.Quote(text) + ": only secrets are read from the environment; write the value itself"
	}
	if f.Enum != nil && !slices.Contains(f.Enum, text) {
		return "unknown value " + config.Quote(text) + didYouMean(text, f.Enum)
	}
	f.Value.SetString(text)
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

// setScalar sets f to what text says, and returns what is wrong with it, or "".
func setScalar(f config.Field, text string) string {
	dst := f.Value
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
	case config.IsDuration(dst):
		var d time.Duration
		d, err = time.ParseDuration(text)
		dst.SetInt(int64(d))
		if hours, ok := inHours(text); ok {
			return config.Quote(text) + " is not a duration: there is no unit for days, write " + hours
		}
		if err != nil {
			return config.Quote(text) + " is not a duration: numbers with units, as in 10s or 1h30m"
		}
	case kind == reflect.String:
		return setString(f, text)
	case kind == reflect.Bool:
		dst.SetBool(text == "true")
		if text != "true" && text != "false" {
			return config.Quote(text) + " is neither true nor false" + meantBool(text)
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
		return fmt.Sprintf("%s is not %s in the range of this key", config.Quote(text), config.ScalarName(dst))
	}
	return ""
}

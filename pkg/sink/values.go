package sink

import (
	"fmt"
	"log/slog"
	"os"
	"regexp"
	"strconv"
	"strings"

	"github.com/informd/informd/pkg/event"
)

// Secret is a text that must not show: it prints, marshals and logs as
// "<redacted>". In the config it is the text itself or "${env:NAME}", which is
// replaced by that environment variable when the config is read.
type Secret struct {
	// value is a pointer, because fmt calls no methods of unexported fields. It prints the
	// fields themselves, but not the targets of pointers. Nil is "".
	value *string
}

const redacted = "<redacted>"

var envReference = regexp.MustCompile(`^\$\{env:([A-Za-z_][A-Za-z0-9_]*)\}$`)

// NewSecret makes a Secret of a text as it is.
func NewSecret(value string) Secret {
	if value == "" {
		return Secret{}
	}
	return Secret{&value}
}

// UnmarshalText takes the text, or the environment variable that it names. A
// variable that is not set is an error.
func (s *Secret) UnmarshalText(text []byte) error {
	value := string(text)
	if m := envReference.FindStringSubmatch(value); m != nil {
		var ok bool
		if value, ok = os.LookupEnv(m[1]); !ok {
			return fmt.Errorf("environment variable %s is not set; on a machine without it, set it to any valid value to check the config", m[1])
		}
	}
	*s = NewSecret(value)
	return nil
}

// Reveal returns the text itself.
func (s Secret) Reveal() string {
	if s.value == nil {
		return ""
	}
	return *s.value
}

// String hides the text.
func (s Secret) String() string { return redacted }

// GoString hides the text from %#v.
func (s Secret) GoString() string { return redacted }

// MarshalText hides the text from every encoder.
func (s Secret) MarshalText() ([]byte, error) { return []byte(redacted), nil }

// LogValue hides the text from slog.
func (s Secret) LogValue() slog.Value { return slog.StringValue(redacted) }

// ByteSize is a number of bytes; in the config a whole number with an optional
// unit B, KiB, MiB, GiB or TiB (powers of 1024), as in "10GiB".
type ByteSize int64

// The units of [ByteSize].
const (
	KiB ByteSize = 1 << (10 * (iota + 1))
	MiB
	GiB
	TiB
)

// UnmarshalText parses the form that the type's comment gives.
func (b *ByteSize) UnmarshalText(text []byte) error {
	number, unit := strings.TrimSpace(string(text)), ByteSize(1)
	for _, u := range []struct {
		suffix string
		size   ByteSize
	}{{"KiB", KiB}, {"MiB", MiB}, {"GiB", GiB}, {"TiB", TiB}, {"B", 1}} {
		if head, ok := strings.CutSuffix(number, u.suffix); ok {
			number, unit = strings.TrimSpace(head), u.size
			break
		}
	}
	n, err := strconv.ParseInt(number, 10, 64)
	if err != nil || n < 0 || n > int64((1<<62)/unit) {
		return fmt.Errorf("%q is not a size: a whole number and B, KiB, MiB, GiB or TiB, as in 100MiB", text)
	}
	*b = ByteSize(n) * unit
	return nil
}

// String renders the size in the largest unit that divides it.
func (b ByteSize) String() string {
	for _, u := range []struct {
		suffix string
		size   ByteSize
	}{{"TiB", TiB}, {"GiB", GiB}, {"MiB", MiB}, {"KiB", KiB}} {
		if b != 0 && b%u.size == 0 {
			return strconv.FormatInt(int64(b/u.size), 10) + u.suffix
		}
	}
	return strconv.FormatInt(int64(b), 10) + "B"
}

// MarshalText is the inverse of UnmarshalText.
func (b ByteSize) MarshalText() ([]byte, error) { return []byte(b.String()), nil }

// Format is the form of an event, for sinks that have several.
type Format string

// The formats.
const (
	// FormatCloudEvents is CloudEvents structured mode: the whole event as JSON.
	FormatCloudEvents Format = "cloudevents"
	// FormatBinary is CloudEvents binary mode: the attributes are headers
	// ([event.Event.AppendHeaders]), the body is the data.
	FormatBinary Format = "binary"
	// FormatRaw is the bare object: the body beside the headers of binary mode ([event.Event.Raw]),
	// or a line ([event.Event.AppendRaw]).
	FormatRaw Format = "raw"
)

// AppendLine appends an event as a line of JSON, in the format cloudevents or raw.
func (f Format) AppendLine(dst []byte, e *event.Event) []byte {
	if f == FormatRaw {
		return append(e.AppendRaw(dst), '\n')
	}
	return append(e.AppendJSON(dst), '\n')
}

// Toggle is implemented by a block of options that a config may also give as true, for the
// defaults of the block, or as false.
type Toggle interface {
	// Toggle is called with that value instead of decoding the keys of the block.
	Toggle(on bool)
}

package sink_test

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"

	"github.com/informd/informd/pkg/sink"
)

const hidden = "hunter2"

// TestSecretNeverShows prints secrets in every way there is, inside everything
// that they may be inside of.
func TestSecretNeverShows(t *testing.T) {
	secret := sink.NewSecret(hidden)
	type exported struct{ Token sink.Secret }
	type unexported struct{ token sink.Secret }
	holders := map[string]any{
		"itself":            secret,
		"pointer":           &secret,
		"exported field":    exported{secret},
		"pointer to struct": &exported{secret},
		"unexported field":  unexported{secret},
		"slice":             []sink.Secret{secret},
		"map":               map[string]sink.Secret{"X-Token": secret},
		"unexported inside": []any{&unexported{secret}, map[string]unexported{"a": {secret}}},
	}
	for name, holder := range holders {
		t.Run(name, func(t *testing.T) {
			for _, verb := range "vsqxXdtcobOUeEfFgGpT" {
				for _, flags := range []string{"", "+", "#", " ", "-20", "020"} {
					format := "%" + flags + string(verb)
					wantHidden(t, format, fmt.Sprintf(format, holder))
				}
			}
			wantHidden(t, "Sprint", fmt.Sprint(holder))
			wantHidden(t, "error", fmt.Errorf("open: %v", holder).Error())
			for encoder, encode := range map[string]func(any) ([]byte, error){
				"json": json.Marshal,
				"yaml": func(v any) ([]byte, error) { return yaml.Marshal(v) },
			} {
				text, err := encode(holder)
				if err != nil {
					t.Errorf("%s: %v", encoder, err)
				}
				wantHidden(t, encoder, string(text))
			}
			wantHidden(t, "slog text", logged(holder, func(w io.Writer) slog.Handler { return slog.NewTextHandler(w, nil) }))
			wantHidden(t, "slog json", logged(holder, func(w io.Writer) slog.Handler { return slog.NewJSONHandler(w, nil) }))
		})
	}
	text, err := xml.Marshal(exported{secret})
	if err != nil {
		t.Fatal(err)
	}
	wantHidden(t, "xml", string(text))
}

func logged(v any, handler func(io.Writer) slog.Handler) string {
	var out bytes.Buffer
	logger := slog.New(handler(&out))
	logger.Info("message", "value", v, slog.Group("group", "value", v))
	return out.String()
}

func wantHidden(t *testing.T, how, text string) {
	t.Helper()
	// In hexadecimal and as a list of numbers, too.
	for _, form := range []string{hidden, fmt.Sprintf("%x", hidden), fmt.Sprintf("%X", hidden), strings.Trim(fmt.Sprint([]byte(hidden)), "[]")} {
		if strings.Contains(text, form) {
			t.Errorf("%s shows the secret: %s", how, text)
		}
	}
	if text == "" {
		t.Errorf("%s shows nothing at all", how)
	}
}

func TestSecretSaysThatItIsHidden(t *testing.T) {
	for _, secret := range []sink.Secret{sink.NewSecret(hidden), {}} { // empty or not does not show either
		for _, format := range []string{"%v", "%+v", "%#v", "%s"} {
			if got := fmt.Sprintf(format, secret); got != "<redacted>" {
				t.Errorf("%s of a secret = %s", format, got)
			}
		}
		if text, err := json.Marshal(secret); err != nil || string(text) != `"\u003credacted\u003e"` {
			t.Errorf("JSON of a secret = %s, %v", text, err)
		}
	}
}

func TestSecretUnmarshal(t *testing.T) {
	t.Setenv("INFORMD_TEST_SECRET", hidden)
	t.Setenv("INFORMD_TEST_EMPTY", "")
	t.Setenv("INFORMD_TEST_NESTED", "${env:INFORMD_TEST_SECRET}")
	for name, c := range map[string]struct{ text, want, err string }{
		"text":             {"abc", "abc", ""},
		"empty":            {"", "", ""},
		"variable":         {"${env:INFORMD_TEST_SECRET}", hidden, ""},
		"empty variable":   {"${env:INFORMD_TEST_EMPTY}", "", ""},
		"not twice":        {"${env:INFORMD_TEST_NESTED}", "${env:INFORMD_TEST_SECRET}", ""},
		"not inside":       {"a${env:INFORMD_TEST_SECRET}", "a${env:INFORMD_TEST_SECRET}", ""},
		"not a reference":  {"${INFORMD_TEST_SECRET}", "${INFORMD_TEST_SECRET}", ""},
		"not a name":       {"${env:A-B}", "${env:A-B}", ""},
		"missing variable": {"${env:INFORMD_TEST_MISSING}", "before", "INFORMD_TEST_MISSING is not set"},
	} {
		t.Run(name, func(t *testing.T) {
			secret := sink.NewSecret("before")
			err := secret.UnmarshalText([]byte(c.text))
			if (err != nil) != (c.err != "") || err != nil && !strings.Contains(err.Error(), c.err) {
				t.Errorf("error %v, want %q", err, c.err)
			}
			if got := secret.Reveal(); got != c.want {
				t.Errorf("Reveal = %q, want %q", got, c.want)
			}
		})
	}
}

func TestByteSizeUnmarshal(t *testing.T) {
	for text, want := range map[string]sink.ByteSize{
		"0":                   0,
		"0TiB":                0,
		"1":                   1,
		"512B":                512,
		"1KiB":                1024,
		"100MiB":              100 * sink.MiB,
		"10GiB":               10 * sink.GiB,
		"3TiB":                3 * sink.TiB,
		" 7 MiB ":             7 * sink.MiB,
		"4194304TiB":          1 << 62,
		"4611686018427387904": 1 << 62,
	} {
		var got sink.ByteSize
		if err := got.UnmarshalText([]byte(text)); err != nil || got != want {
			t.Errorf("%q = %d, %v, want %d", text, got, err, want)
		}
	}
	for _, text := range []string{
		"", " ", "B", "MiB", "-1", "-1KiB", "1.5GiB", "1e3", "0x10", "1MB", "1M", "1mib", "1 Mi B", "10GiBB", "١٢",
		"4194305TiB", "9223372036854775808", "18446744073709551616KiB", "1KiB\n1",
	} {
		got := sink.ByteSize(42)
		err := got.UnmarshalText([]byte(text))
		if err == nil || !strings.Contains(err.Error(), "100MiB") {
			t.Errorf("%q = %d, %v, want an error with an example", text, got, err)
		}
		if got != 42 {
			t.Errorf("%q: the error changed the size to %d", text, got)
		}
	}
}

func TestByteSizeString(t *testing.T) {
	for size, want := range map[sink.ByteSize]string{
		0: "0B", 1: "1B", 1023: "1023B", sink.KiB: "1KiB", 1025: "1025B", 1536: "1536B", 100 * sink.MiB: "100MiB",
		1024 * sink.GiB: "1TiB", 5 * sink.TiB: "5TiB", 3 * sink.GiB / 2: "1536MiB",
	} {
		if got := size.String(); got != want {
			t.Errorf("%d bytes = %s, want %s", int64(size), got, want)
		}
		text, err := size.MarshalText()
		var back sink.ByteSize
		if err := errors.Join(err, back.UnmarshalText(text)); err != nil || back != size {
			t.Errorf("%s came back as %s, %v", size, back, err)
		}
	}
}

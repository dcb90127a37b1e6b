package cli

import (
	"bytes"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"
)

func TestShortened(t *testing.T) {
	cases := map[string]struct{ text, want string }{
		"short":       {"connection refused", "connection refused"},
		"just so":     {strings.Repeat("ä", 120), strings.Repeat("ä", 120)},
		"long":        {"begin " + strings.Repeat("ä", 200) + " end", "begin " + strings.Repeat("ä", 54) + "…" + strings.Repeat("ä", 55) + " end"},
		"white space": {"a \n\t b", "a b"},
		"quotes":      {`Get "a\b"`, `Get "a\b"`},
		"escapes":     {"\x1b[2J", `\x1b[2J`},
		"empty":       {"", ""},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			if got := shortened(c.text); got != c.want || utf8.RuneCountInString(got) > 120 {
				t.Errorf("%q, want %q", got, c.want)
			}
		})
	}
}

func TestNumbersForPeople(t *testing.T) {
	cases := map[string]struct{ got, want string }{
		"bytes":             {size(1023), "1023B"},
		"KiB":               {size(1024), "1.0KiB"},
		"MiB":               {size(16 << 20), "16MiB"},
		"GiB":               {size(3 << 29), "1.5GiB"},
		"more than TiB":     {size(1 << 60), "1048576TiB"},
		"no rate":           {perSecond(0.001), "0"},
		"rate below 1":      {perSecond(0.25), "0.25"},
		"rate":              {perSecond(9.96), "10.0"},
		"high rate":         {perSecond(1234.5), "1234"},
		"age":               {age(seconds(754.2)), "12m"},
		"age in the future": {age(-time.Hour), "0s"},
		"age without end":   {age(seconds(1e300)), "292y"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			if c.got != c.want {
				t.Errorf("%q, want %q", c.got, c.want)
			}
		})
	}
}

// TestHostileOutput: no format shows characters that a terminal obeys, and YAML and JSON keep them.
func TestHostileOutput(t *testing.T) {
	const hostile = "a\u009b2J \u202eb\u2066c\u200fd\u0080\u202e \\x80\\u202e \\x80\u202e\x7f"
	document := map[string]string{"name": hostile, hostile: "key"}
	for _, name := range []string{formatJSON, formatYAML} {
		t.Run(name, func(t *testing.T) {
			var out bytes.Buffer
			must(t, (&format{value: name}).show(&out, document, nil))
			if strings.ContainsAny(out.String(), "\u009b\u0080\u202e\u2066\u200f\x7f") {
				t.Errorf("%q", out.String())
			}
			got := map[string]string{}
			if err := yaml.Unmarshal(out.Bytes(), &got); err != nil {
				t.Fatalf("%v: %s", err, &out)
			}
			if diff := cmp.Diff(document, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

package cli

import (
	"strings"
	"testing"
	"time"
	"unicode/utf8"
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

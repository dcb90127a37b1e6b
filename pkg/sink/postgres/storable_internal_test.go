package postgres

import (
	"strings"
	"testing"
)

func TestStorable(t *testing.T) {
	for json, want := range map[string]bool{
		`{"a":1,"b":[true,null,"x"]}`:       true,
		`{"a":"\u0041\n\"\\"}`:              true,
		`{"a":"\\u0000"}`:                   true,
		`{"a":"\u0000"}`:                    false,
		`{"a\u0000":1}`:                     false,
		`{"a":"\\\u0000"}`:                  false,
		`{"a":"\ud83d\ude00"}`:              true,
		`{"a":"\ud83d"}`:                    false,
		`{"a":"\ude00"}`:                    false,
		`{"a":"\ud83d\u0041"}`:              false,
		`{"a":"\ud83d"`:                     false,
		`{"a":1e10}`:                        true,
		`{"a":-1.5E-300}`:                   true,
		`{"a":1e20000}`:                     false,
		`{"a":1e-20000}`:                    false,
		`{"a":1e99999999999999999999}`:      false,
		`{"a":"1e20000"}`:                   true,
		strings.Repeat("9", 20_000):         false,
		strings.Repeat("[", 1001):           false,
		`"` + strings.Repeat("[", 1001):     true,
		"\"\xff\"":                          false,
		`{"a":"unfinished\`:                 true, // no JSON: the server says so
		``:                                  true,
		`{"a":"` + `日本` + `\u65e5"}`:        true,
		`{"a":0.` + strings.Repeat("1", 50): true,
	} {
		if got := storable([]byte(json)); got != want {
			t.Errorf("storable(%.60q) = %t", json, got)
		}
	}
}

// FuzzStorable: no text makes it panic, and a text that jsonb surely refuses is found.
func FuzzStorable(f *testing.F) {
	f.Add([]byte(`{"a":"\ud83d\ude00 \u0000"}`))
	f.Fuzz(func(_ *testing.T, text []byte) { storable(text) })
}

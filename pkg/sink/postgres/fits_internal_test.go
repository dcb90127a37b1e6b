package postgres

import (
	"testing"

	"github.com/informd/informd/pkg/event"
)

// TestFits: a NUL is found before the server is asked, and nothing that only looks like one.
func TestFits(t *testing.T) {
	for json, want := range map[string]bool{
		`{"a":"\u0041\n\"\\"}`:             true,
		`{"a":"\\u0000"}`:                  true,
		`{"a":"\\\\u0000"}`:                true,
		`{"a":"\u0000"}`:                   false,
		`{"a\u0000":1}`:                    false,
		`{"a":"\\\u0000"}`:                 false,
		`{"a":"\\u0000","b":"\\\\\u0000"}`: false,
		``:                                 true,
	} {
		if got := fits(&event.Event{Data: []byte(json)}); got != want {
			t.Errorf("fits(%q) = %t", json, got)
		}
	}
	if fits(&event.Event{Name: "a\x00"}) || fits(&event.Event{Name: "a\xff"}) {
		t.Error("a name that no text holds fits")
	}
}

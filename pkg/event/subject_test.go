package event_test

import (
	"strings"
	"testing"

	"github.com/informd/informd/pkg/event"
)

func TestEscapeToken(t *testing.T) {
	for in, want := range map[string]string{
		"":                       "",
		"web-1":                  "web-1",
		"a.b":                    "a_b",
		"a_b":                    "a%5Fb",
		"100%":                   "100%25",
		"system:node:*":          "system:node:%2A",
		">":                      "%3E",
		"a b\n":                  "a%20b%0A",
		"ü":                      "%C3%BC",
		"\xff":                   "%FF",
		"monitoring.example.com": "monitoring_example_com",
	} {
		if got := event.EscapeToken(in); got != want {
			t.Errorf("EscapeToken(%q) = %q, want %q", in, got, want)
		}
	}
}

func TestUnescapeTokenRefuses(t *testing.T) {
	for _, token := range []string{
		"a.b", "a b", "*", "ü", "%", "%4", "%zz", "a%2", "%2e", "%3e", "%41", "%2E", "%2D", "a\x00",
	} {
		if got, err := event.UnescapeToken(token); err == nil {
			t.Errorf("UnescapeToken(%q) = %q, want an error", token, got)
		}
	}
}

func FuzzEscapeToken(f *testing.F) {
	for _, s := range hostile() {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		token := event.EscapeToken(s)
		if strings.ContainsFunc(token, func(r rune) bool { return r <= ' ' || r > '~' || strings.ContainsRune(".*>$", r) }) {
			t.Errorf("EscapeToken(%q) = %q is not one plain token", s, token)
		}
		if got, err := event.UnescapeToken(token); err != nil || got != s {
			t.Errorf("UnescapeToken(%q) = %q, %v, want %q", token, got, err, s)
		}
	})
}

// FuzzUnescapeToken holds that every object has exactly one subject.
func FuzzUnescapeToken(f *testing.F) {
	for _, s := range hostile() {
		f.Add(event.EscapeToken(s))
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, token string) {
		s, err := event.UnescapeToken(token)
		if err == nil && event.EscapeToken(s) != token {
			t.Errorf("%q and %q stand for the same text", token, event.EscapeToken(s))
		}
	})
}

func TestNATSSubjectShape(t *testing.T) {
	for _, s := range hostile() {
		e := deployment(event.Modified)
		e.Name, e.Namespace, e.Cluster = s+"x", s+"y", s+"z"
		if got := strings.Count(e.NATSSubject("k8s"), "."); got != 5 {
			t.Errorf("subject %q has %d dots, want 5", e.NATSSubject("k8s"), got)
		}
		e.Op, e.Target = event.Gap, s+"t"
		if got := strings.Count(e.NATSSubject("k8s"), "."); got != 4 {
			t.Errorf("control subject %q has %d dots, want 4", e.NATSSubject("k8s"), got)
		}
	}
}

package cli

import (
	"strings"
	"testing"
)

// person answers questions.
type person struct{ *strings.Reader }

func (person) Interactive() bool { return true }

// TestInitSinks: init writes a config with a sink of any type that the program has.
func TestInitSinks(t *testing.T) {
	required := map[string][]string{
		"exec": {"command=[cat]"}, "file": {"path=events.ndjson"}, "kafka": {"servers=[kafka:9092]", "topic=k8s"}, "nats": {"servers=nats://nats:4222"},
		"otlp": {"url=https://collector:4318"}, "postgres": {"servers=pg:5432", "auth={username: informd}", "database=inventory"}, "stdout": nil,
		"webhook": {`url="https://example.com/events"`},
	}
	for _, d := range standard().Drivers {
		t.Run(d.Type, func(t *testing.T) {
			t.Chdir(t.TempDir())
			args := []string{"init", "--cluster", "prod", "--sink", d.Type}
			for _, option := range required[d.Type] {
				args = append(args, "--set", option)
			}
			ends(t, exitOK, args...)
			ends(t, exitOK, "validate")
		})
	}
}

// TestConfirm: a destructive command asks a person, and any answer but yes ends it.
func TestConfirm(t *testing.T) {
	for answer, want := range map[string]bool{"y\n": true, "Yes\n": true, "\n": false, "no\n": false, "": false} {
		var shown strings.Builder
		err := confirm(streams{in: person{strings.NewReader(answer)}, err: &shown}, "Drop everything?")
		if (err == nil) != want || shown.String() != "Drop everything? [y/N] " {
			t.Errorf("%q: %v after %q", answer, err, shown.String())
		}
	}
}

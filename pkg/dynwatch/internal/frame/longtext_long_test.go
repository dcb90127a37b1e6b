//go:build long

package frame_test

import (
	"strings"
	"testing"
	"time"

	"github.com/informd/informd/internal/form"
)

// TestLongTexts holds expensive patterns against 1.4 MB, in one text and in many: the
// search ends, and nothing that it had no time for is shown.
func TestLongTexts(t *testing.T) {
	const length, most = 1_400_000, 3 * time.Minute
	one := func(value string) string { return `"x":"` + value + `"` }
	many := func(value string) string {
		var all []string
		for i := range 200 {
			all = append(all, `"k`+strings.Repeat("k", i)+`":"`+value[:len(value)/200]+`"`)
		}
		return strings.Join(all, ",")
	}
	for name, c := range map[string]struct {
		pattern, text string
		members       func(string) string
	}{
		"a large program":                      {`/(.{0,50}b?){0,19}z/`, "a", one},
		"a large program and many texts":       {`/(.{0,50}b?){0,19}z/`, "a", many},
		"matches that take the square of time": {`/a*b|a/`, "a", one},
	} {
		t.Run(name, func(t *testing.T) {
			n := rules{redact: []string{c.pattern}}.normaliser(t)
			object := `{"metadata":{"name":"n","uid":"u","resourceVersion":"7"},"data":{` + c.members(strings.Repeat(c.text, length)) + `}}`
			started := time.Now()
			o, err := n.Normalise([]byte(object))
			must(t, err)
			if took := time.Since(started); took > most {
				t.Errorf("it took %v", took)
			}
			data := string(form.CloseData(o.Data))
			if !strings.Contains(data, "hmac-sha256:") || strings.HasSuffix(data, c.text+`"}}}`) {
				t.Errorf("the end of the text is shown: %.200s", data)
			}
		})
	}
}

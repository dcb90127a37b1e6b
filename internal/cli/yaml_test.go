package cli

import (
	"bytes"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"
)

// TestHostileOutput: no format shows characters that a terminal obeys, and YAML and JSON keep them.
func TestHostileOutput(t *testing.T) {
	const hostile = "a\u009b2J \u202eb\u2066c\u200fd\u0080\u202e \\x80\\u202e \\x80\u202e\x7f"
	document := map[string]string{"name": hostile, hostile: "key"}
	for _, name := range []string{formatJSON, formatYAML} {
		t.Run(name, func(t *testing.T) {
			var out bytes.Buffer
			if err := (&format{value: name}).show(&out, document, nil); err != nil {
				t.Fatal(err)
			}
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

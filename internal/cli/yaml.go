package cli

import (
	"encoding/json"
	"regexp"

	"sigs.k8s.io/yaml"

	"github.com/informd/informd/internal/display"
)

// yAML returns a document as YAML, with escapes for the characters that a terminal obeys.
//
// sigs.k8s.io/yaml v1 fails on C1 controls, which encoding/json does not escape. It also
// writes controls of bidirectional text as they are. A C1 control before each of them makes
// it write the text in double quotes, where an escape has a meaning.
func yAML(document any) ([]byte, error) {
	text, err := json.Marshal(document)
	if err != nil {
		return nil, err
	}
	const bidi = `[\x{061c}\x{200e}\x{200f}\x{202a}-\x{202e}\x{2066}-\x{2069}]`
	marked := regexp.MustCompile(bidi).ReplaceAll(text, []byte("\\u0080$0"))
	out, err := yaml.JSONToYAML(display.JSON(marked))
	if err != nil {
		return nil, err
	}
	return display.JSON(regexp.MustCompile(`\\x80(`+bidi+`)`).ReplaceAll(out, []byte("$1"))), nil
}

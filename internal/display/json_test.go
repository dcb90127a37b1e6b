package display_test

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/informd/informd/internal/display"
)

// hostile are characters that a terminal obeys.
const hostile = "\x7f\u0080\u009b31m\u009f\u061c\u200e\u200f\u202a\u202e\u2066\u2069"

// TestJSON escapes what a terminal would obey, and changes no meaning.
func TestJSON(t *testing.T) {
	for _, text := range []string{"", "plain", "é語😀\u00a0\u2028", hostile, "a" + hostile + "b", "\xff\x9b", `"\`} {
		var in bytes.Buffer
		encoder := json.NewEncoder(display.JSONWriter(&in))
		encoder.SetEscapeHTML(false)
		if err := encoder.Encode(map[string]string{"k" + text: text}); err != nil {
			t.Fatal(err)
		}
		checkShown(t, in.String())
		var out map[string]string
		if err := json.Unmarshal(in.Bytes(), &out); err != nil {
			t.Fatalf("%q: %v", in.String(), err)
		}
		if want := strings.ToValidUTF8(text, "\ufffd"); utf8.ValidString(text) && out["k"+text] != want {
			t.Errorf("%q becomes %q", want, out)
		}
	}
	if text := []byte(`{"a":"é"}`); &display.JSON(text)[0] != &text[0] {
		t.Error("a harmless text is copied")
	}
	var log bytes.Buffer
	slog.New(slog.NewJSONHandler(display.JSONWriter(&log), nil)).Info("object", "name", hostile)
	checkShown(t, log.String())
}

func checkShown(t *testing.T, text string) {
	t.Helper()
	if i := strings.IndexAny(text, strings.ReplaceAll(hostile, "31m", "")); i >= 0 {
		t.Errorf("%q shows %q", text, text[i:min(len(text), i+4)])
	}
}

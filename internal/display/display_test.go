package display_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/informd/informd/internal/display"
)

// TestReason holds reasons to their limit, with their beginning and their end.
func TestReason(t *testing.T) {
	for _, of := range []string{"x", "é", "語", "😀"} {
		for shift := range 4 {
			long := strings.Repeat("a", shift) + strings.Repeat(of, 3<<20/len(of)) + strings.Repeat("z", shift)
			got := display.Reason(long)
			if len(got) > display.MaxReason || len(got) < display.MaxReason-64 {
				t.Errorf("%q, %d: %d bytes, want about %d", of, shift, len(got), display.MaxReason)
			}
			if !utf8.ValidString(got) {
				t.Errorf("%q, %d: a character is cut: %q", of, shift, got)
			}
			if !strings.HasPrefix(got, long[:shift]+of) || !strings.HasSuffix(got, of+strings.Repeat("z", shift)) {
				t.Errorf("%q, %d: the beginning or the end is missing: %q", of, shift, got)
			}
			var left int
			if i := strings.Index(got, " ... ("); i < 0 {
				t.Errorf("no mark in %q", got)
			} else if _, err := fmt.Sscanf(got[i:], " ... (%d bytes left out)", &left); err != nil {
				t.Errorf("no number in %q: %v", got, err)
			}
			if kept := len(got) - len(fmt.Sprintf(" ... (%d bytes left out) ... ", left)); left+kept != len(long) {
				t.Errorf("%d bytes left out and %d kept, want %d together", left, kept, len(long))
			}
		}
	}
	for _, short := range []string{"", "x", strings.Repeat("x", display.MaxReason), "\xff", strings.Repeat("\xff", 9)} {
		if got := display.Reason(short); got != short {
			t.Errorf("%q became %q", short, got)
		}
	}
	if got := display.Reason(strings.Repeat("\x80", 5000)); len(got) > display.MaxReason {
		t.Errorf("%d bytes", len(got))
	}
}

// TestAddresses holds credentials back, and leaves all other texts alone.
func TestAddresses(t *testing.T) {
	for text, want := range map[string]string{
		"https://user:pass@host:6443/a":                      "https://<redacted>@host:6443/a",
		"nats://token@n1:4222,nats://u:p@n2":                 "nats://<redacted>@n1:4222,nats://<redacted>@n2",
		`Get "https://u:***@host/api?x=1": EOF`:              `Get "https://<redacted>@host/api?x=1": EOF`,
		`parse "https://u:p%zz@host": invalid URL escape`:    `parse "https://<redacted>@host": invalid URL escape`,
		"http://u:p@ss@host":                                 "http://<redacted>@host",
		`parse "http://u:p/ss@host/x": invalid port ":p"`:    `parse "http://<redacted>@host/x": invalid port ":p"`,
		"https://host/a@b and https://host:443/image@sha256": "https://host/a@b and https://host:443/image@sha256",
		"https://host/?to=a@b":                               "https://host/?to=a@b",
		"mail a@b, see https://host":                         "mail a@b, see https://host",
		"a:b@c":                                              "a:b@c",
		"":                                                   "",
	} {
		if got := display.Addresses(text); got != want {
			t.Errorf("%q becomes %q, want %q", text, got, want)
		}
	}
	for text, want := range map[string]string{
		"u:p@host:6443": "<redacted>@host:6443", "host:6443": "host:6443", "https://u:p@h": "https://<redacted>@h",
	} {
		if got := display.Address(text); got != want {
			t.Errorf("address %q becomes %q, want %q", text, got, want)
		}
	}
	if got := display.Reason("ask https://u:canary@host: " + strings.Repeat("x", 2000)); strings.Contains(got, "canary") {
		t.Errorf("a reason shows the password: %s", got)
	}
}

func TestNearest(t *testing.T) {
	candidates := []string{"configmaps", "deployments.apps", "pods", "resnapshotEvery"}
	for word, want := range map[string]string{
		"configmap": "configmaps", "deploymnets.apps": "deployments.apps", "Pods": "pods", "resnapshot-every": "resnapshotEvery",
		"deployments": "deployments.apps", "x": "", "": "", "ingresses": "",
	} {
		if got, ok := display.Nearest(word, candidates); got != want || ok != (want != "") {
			t.Errorf("%q: %q, %t; want %q", word, got, ok, want)
		}
	}
}

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

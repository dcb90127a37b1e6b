package display_test

import (
	"fmt"
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

package search_test

import (
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/informd/informd/internal/search"
)

// TestAll finds what package regexp finds.
func TestAll(t *testing.T) {
	for _, expression := range []string{"a", "a*", "^a", `\ba`, "a|b", "x*", "(?i)B+", "é", "$"} {
		for _, text := range []string{"", "a", "aab", "baaa b aa", "éaé", "\xffa"} {
			pattern := regexp.MustCompile(expression)
			var got [][]int
			room := append(make([]byte, 0, 100), text...)
			if !search.All(pattern, room, time.Minute, func(from, to int) bool {
				got = append(got, []int{from, to})
				return true
			}) {
				t.Errorf("%q in %q: not complete", expression, text)
			}
			if diff := cmp.Diff(pattern.FindAllIndex([]byte(text), -1), got); diff != "" {
				t.Errorf("%q in %q (-want +got):\n%s", expression, text, diff)
			}
		}
	}
}

// TestAllEnds ends a search whose matches each take long, and one that is to end.
func TestAllEnds(t *testing.T) {
	text := []byte(strings.Repeat("a", 1<<20))
	n := 0
	if search.All(regexp.MustCompile("a*b|a"), text, 10*time.Millisecond, func(int, int) bool { n++; return true }) {
		t.Errorf("a search of quadratic time was complete, with %d matches", n)
	}
	n = 0
	if complete := search.All(regexp.MustCompile("a"), text, time.Minute, func(int, int) bool { n++; return n < 3 }); !complete || n != 3 {
		t.Errorf("complete: %t, with %d matches, want 3", complete, n)
	}
	defer func() {
		if recover() == nil {
			t.Error("a fault of the caller is swallowed")
		}
	}()
	search.All(regexp.MustCompile("a"), text, time.Minute, func(int, int) bool { panic("fault") })
}

// TestSize refuses programs that are too large.
func TestSize(t *testing.T) {
	for expression, ok := range map[string]bool{
		"a": true, `(?i)AKIA[0-9A-Z]{16}`: true, `.{0,1000}`: true, strings.Repeat(`.{0,1000}`, 9): false, "(": false,
	} {
		if n, err := search.Size(expression); (err == nil) != ok {
			t.Errorf("%.20q: %d, %v", expression, n, err)
		}
	}
}

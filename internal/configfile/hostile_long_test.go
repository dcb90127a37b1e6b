//go:build long

package configfile_test

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// Aliases that multiply, and what else grows faster than the file, end soon
// with an error that is not too long.
func TestBombs(t *testing.T) {
	many := func(n int, s string) string { return strings.Repeat(s, n) }
	laughs := "a0: &a0 [x,x,x,x,x,x,x,x,x,x]\n"
	merges := "m0: &m0 {k: v}\n"
	for i := 1; i < 40; i++ {
		laughs += fmt.Sprintf("a%d: &a%d [%s]\n", i, i, many(10, fmt.Sprintf("*a%d,", i-1)))
		merges += fmt.Sprintf("m%d: &m%d {<<: [*m%d, *m%d]}\n", i, i, i-1, i-1)
	}
	keys := func(n int) string {
		var b strings.Builder
		for i := range n {
			fmt.Fprintf(&b, "k%d: v\n", i)
		}
		return b.String()
	}
	tests := map[string]string{
		"laughs":                   laughs + "resources: *a39\n",
		"laughs of lists":          "resources: [&r {resource: pods, namespaces: [" + many(2000, "a,") + "]}," + many(2000, "*r,") + "]\n",
		"merges":                   merges + "log: *m39\n",
		"merges of many":           "a: &a {" + strings.ReplaceAll(keys(3000), "\n", ",") + "}\nb: [" + many(2500, "{<<: *a},") + "]\n",
		"merges of empty":          "a: &a [" + many(2500, "{},") + "]\nb: [" + many(2500, "{<<: *a},") + "]\n",
		"unknown keys":             keys(9000),
		"same key":                 many(9000, "k: v\n"),
		"long unknown keys":        many(5000, many(200, "x")+": 1\n"),
		"long strings":             "cluster: " + many(1<<19, "x") + "\n",
		"long selector":            "resources: [{resource: pods, labelSelector: \"" + many(1<<19, "(") + "\"}]\n",
		"long resource":            "resources: [{resource: " + many(1<<19, "X") + "}]\n",
		"many resources":           "resources: [" + many(4000, "{resource: pods},") + "]\n",
		"many broken resources":    "resources: [" + many(1500, "{resorce: Pod, group: [], mode: x},") + "]\n",
		"many sinks":               "sinks: [" + many(2500, "{name: a, type: webhook},") + "]\n",
		"10 MiB of brackets":       many(10<<20, "["),
		"brackets to the limit":    many(1<<20, "["),
		"dashes to the limit":      many(1<<19, "- "),
		"colons to the limit":      many(1<<18, "a: "),
		"questions to the limit":   many(1<<19, "? "),
		"tags to the limit":        many(1<<18, "!a "),
		"anchors to the limit":     many(1<<18, "&a "),
		"quotes to the limit":      many(1<<20, "'"),
		"newlines to the limit":    many(1<<20, "\n"),
		"indentation":              many(29_000, "-\n") + "x\n",
		"almost too many brackets": many(29_000, "["),
		"pipes":                    many(7_000, "a: |\n"),
		"documents":                many(7_000, "---\na: 1\n"),
		"almost too many dashes":   many(700, many(40, "- ")+"x\n"),
		"almost too many columns":  many(40, "- ") + "x\n" + many(1000, many(80, " ")+"- x\n"),
	}
	for name, body := range tests {
		t.Run(name, func(t *testing.T) {
			start := time.Now()
			_, err := parse(body)
			if err == nil {
				t.Fatal("no error")
			}
			if size := len(err.Error()); size > 1<<20 {
				t.Errorf("the error has %d bytes", size)
			}
			// Far more than it takes, and far less than any of these would take
			// without a bound.
			if d := time.Since(start); d > time.Minute {
				t.Errorf("took %v", d)
			}
		})
	}
}

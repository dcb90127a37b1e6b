package when_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// Reads names each part with its place; "?" says that the expression asks for it with has().
func TestReads(t *testing.T) {
	for text, want := range map[string]string{
		`object.spec.x == 1`:                                       "spec.x 1:1, spec 1:1",
		`1 == object.spec["cut"].x`:                                "spec.cut.x 1:6, spec.cut 1:6, spec 1:6",
		`object["a.b/c"] == "x"`:                                   "a.b/c 1:1",
		`oldObject.spec != object.spec`:                            "old:spec 1:1, old: 1:1, spec 1:19",
		`oldObject == null`:                                        "old: 1:1",
		`object.l[object.k]`:                                       "l 1:1, k 1:10",
		`object.l[0].x`:                                            "l 1:1",
		`object.l.exists(c, c == object.k)`:                        "l 1:1, k 1:25",
		`has(object.spec)`:                                         "spec? 1:5",
		`has(object.spec.x)`:                                       "spec.x? 1:5, spec 1:5",
		`object.spec.x == 1 && has(object.spec)`:                   "spec.x? 1:1, spec? 1:1, spec? 1:27",
		`object.spec.?cut.orValue(1) == 1`:                         "spec 1:1",
		`object.?spec.?cut.hasValue()`:                             "",
		`op == "oldObject" && [1].exists(x, x == oldObject.n)`:     "old:n 1:41, old: 1:41",
		"object.spec.x == 1 ||\n  \"x\".startsWith(object.spec.y)": "spec.x 1:1, spec 1:1, spec.y 2:18, spec 2:18",
	} {
		var got []string
		for _, r := range compile(t, text).Reads() {
			name := strings.Join(r.Keys, ".")
			switch {
			case r.Old:
				name = "old:" + name
			case name == "":
				continue
			}
			if r.Asked {
				name += "?"
			}
			got = append(got, fmt.Sprintf("%s %d:%d", name, r.Line, r.Col))
		}
		if diff := cmp.Diff(want, strings.Join(got, ", ")); diff != "" {
			t.Errorf("%s (-want +got):\n%s", text, diff)
		}
	}
}

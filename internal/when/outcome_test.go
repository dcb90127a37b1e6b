package when_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/informd/informd/pkg/event"
)

// What an expression is said to come to without spec.cut holds for objects without it.
func TestWithout(t *testing.T) {
	missing := func(keys []string) bool {
		return len(keys) > 1 && keys[0] == "spec" && keys[1] == "cut" || slices.Equal(keys, []string{"a.b/c"})
	}
	for text, want := range map[string]string{
		`object.spec.x == 1`:                                             "may hold",
		`object.spec.cut == 1`:                                           "never holds, fails for spec.cut at 1:1",
		`1 == object.spec["cut"].x.y`:                                    "never holds, fails for spec.cut.x.y at 1:6",
		`object["a.b/c"] == "x"`:                                         "never holds, fails for a.b/c at 1:1",
		`oldObject.spec.cut != object.spec.cut`:                          "never holds, fails for spec.cut at 1:1",
		`oldObject == null || oldObject.spec.cut == 1`:                   "may hold, fails for spec.cut at 1:22",
		`object.spec.cut.startsWith("x")`:                                "never holds, fails for spec.cut at 1:1",
		`"x".startsWith(object.spec.cut)`:                                "never holds, fails for spec.cut at 1:16",
		`object.spec.cut[0].x`:                                           "never holds, fails for spec.cut at 1:1",
		`object.spec.l[object.spec.cut]`:                                 "never holds, fails for spec.cut at 1:15",
		`object.spec.cut.exists(c, c == 1)`:                              "never holds, fails for spec.cut at 1:1",
		`object.spec.l.exists(c, c == object.spec.cut)`:                  "may hold",
		`[{"spec": {"cut": 1}}].exists(object, object.spec.cut == 1)`:    "may hold",
		`has(object.spec.cut)`:                                           "never holds, has spec.cut",
		`has(object.spec.cut.x)`:                                         "never holds, fails for spec.cut at 1:5",
		`!has(object.spec.cut)`:                                          "may hold, has spec.cut",
		`has(object.spec.cut) && object.spec.cut == 1`:                   "never holds, has spec.cut",
		`object.spec.cut == 1 && has(object.spec.cut)`:                   "never holds, has spec.cut",
		`!has(object.spec.cut) || object.spec.cut == 1`:                  "may hold, has spec.cut",
		`has(object.spec.cut) ? object.spec.cut == 1 : op == "added"`:    "may hold, has spec.cut",
		`op == "added" ? object.spec.cut == 1 : true`:                    "may hold, fails for spec.cut at 1:17",
		`op == "added" ? object.spec.cut == 1 : false`:                   "never holds, fails for spec.cut at 1:17",
		`!(op == "added" || object.spec.cut == 1)`:                       "never holds, fails for spec.cut at 1:20",
		`op == "added" && !(object.spec.x == 1 && object.spec.cut == 1)`: "may hold, fails for spec.cut at 1:42",
		`object.spec.?cut.orValue(1) == 1`:                               "may hold",
		`object.?spec.?cut.hasValue()`:                                   "may hold",
		`optional.of(1).orValue(object.spec.cut) == 1`:                   "may hold",
		`optional.of(1).or(optional.of(object.spec.cut)).value() == 1`:   "may hold",
		`object.spec.cut.orValue(1) == 1`:                                "never holds, fails for spec.cut at 1:1",
		`object.spec == {} || object.spec.?cut[0].orValue(2) == 2`:       "may hold",
		`[object.spec.cut] == [1]`:                                       "may hold",
		`false`:                                                          "never holds",
		`true || object.spec.cut == 1`:                                   "may hold",
	} {
		x := compile(t, text)
		holds, fails, has := x.Without(missing)
		got := "never holds"
		if holds {
			got = "may hold"
		}
		switch {
		case fails != nil:
			got += fmt.Sprintf(", fails for %s at %d:%d", strings.Join(fails.Keys, "."), fails.Line, fails.Col)
		case has != nil && !strings.HasPrefix(text, "true"):
			got += ", has " + strings.Join(has.Keys, ".")
		}
		if got != want {
			t.Errorf("%s: %s, want %s", text, got, want)
		}
		for _, object := range []string{`{}`, `{"spec":{}}`, `{"spec":{"x":1,"l":[1,2]}}`, `{"spec":{"x":2,"l":[true]},"status":{"cut":1}}`} {
			for _, op := range []event.Op{event.Added, event.Modified} {
				e := about(object)
				e.Op = op
				var decoded any
				if result, _ := x.Holds(e, &decoded); result && !holds {
					t.Errorf("%s holds for %s, %s", text, op, object)
				}
			}
		}
	}
}

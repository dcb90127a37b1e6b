package when_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/informd/informd/internal/form"
	"github.com/informd/informd/internal/when"
	"github.com/informd/informd/pkg/event"
)

func compiler(t testing.TB) *when.Compiler {
	t.Helper()
	c, err := when.NewCompiler()
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func compile(t testing.TB, text string) *when.Expression {
	t.Helper()
	x, mistakes := compiler(t).Compile(text)
	if len(mistakes) > 0 {
		t.Fatalf("%s: %+v", text, mistakes)
	}
	return x
}

// about makes an event of an object.
func about(object string) *event.Event {
	return &event.Event{
		ID: "uid:7", Op: event.Modified, Cluster: "prod", Target: "apps/deployments", Group: "apps", Version: "v1", Resource: "deployments",
		Kind: "Deployment", Namespace: "shop", Name: "web", UID: "uid", ResourceVersion: 7, PrevResourceVersion: 5, Ordinal: 2, Replay: true,
		Time: time.Date(2026, 11, 20, 10, 0, 0, 0, time.UTC), Data: form.CloseData(append(form.OpenData(nil), object...)),
	}
}

func TestVariables(t *testing.T) {
	e := about(`{"spec":{"replicas":3},"status":{"ready":2.5}}`)
	for text, want := range map[string]bool{
		`op == "modified"`:                                     true,
		`op in ["added", "entered"]`:                           false,
		`object.spec.replicas == 3 && object.status.ready > 2`: true,
		`has(object.spec.paused)`:                              false,
		`event.id == "uid:7" && event.cluster == "prod" && event.group == "apps" && event.version == "v1"`:              true,
		`event.resource == "deployments" && event.kind == "Deployment" && event.namespace == "shop"`:                    true,
		`event.name == "web" && event.uid == "uid" && event.resourceVersion == "7" && event.prevResourceVersion == "5"`: true,
		`event.ordinal == 2 && event.replay && has(event.name)`:                                                         true,
		`event.time.getHours() == 10 && event.time < timestamp("2026-11-21T00:00:00Z")`:                                 true,
		`object.spec == {"replicas": 3}`:                true,
		`event == event && type(object) == map`:         true,
		`quantity("1Gi").isGreaterThan(quantity("1G"))`: true,
	} {
		var decoded any
		if got, err := compile(t, text).Holds(e, &decoded); got != want || err != nil {
			t.Errorf("%s: %v, %v", text, got, err)
		}
	}
	// An event without an object, and with empty attributes.
	e.Data, e.Namespace, e.Replay = form.IdentityData(), "", false
	var decoded any
	if got, err := compile(t, `object == null && !has(event.namespace) && !has(event.replay)`).Holds(e, &decoded); !got || err != nil {
		t.Errorf("without an object: %v, %v", got, err)
	}
}

// TestOld: the object before the change is that of the event, null if it has none.
func TestOld(t *testing.T) {
	without := about(`{"spec":{"replicas":3}}`)
	with := *without
	with.Data = form.AddMembers(with.Data, form.Member{Name: event.MemberOld, Value: []byte(`{"spec":{"replicas":2}}`)},
		form.Member{Name: event.MemberPatch, Value: []byte(`[]`)})
	for text, want := range map[string]struct{ with, without bool }{
		`oldObject == null`: {false, true},
		`oldObject != null && oldObject.spec.replicas < object.spec.replicas`: {true, false},
		`oldObject.?spec.?replicas.orValue(0) == 2`:                           {true, false},
		`op == "modified" && object != oldObject`:                             {true, true},
		`object.spec.replicas == 3`:                                           {true, true},
	} {
		x := compile(t, text)
		for e, want := range map[*event.Event]bool{&with: want.with, without: want.without} {
			var decoded any
			if got, err := x.Holds(e, &decoded); got != want || err != nil {
				t.Errorf("%s of %s: %v, %v", text, e.Data, got, err)
			}
		}
	}
}

func TestMistakes(t *testing.T) {
	for text, want := range map[string]string{
		``:                                      `1:1 is empty: remove it, or write an expression`,
		`objet.x`:                               `1:1 there is no "objet" {objet}`,
		`true && event.kin == "x"`:              `1:15 event has no "kin" {kin}`,
		"true &&\n  object.x.beginsWith(\"a\")": `2:12 there is no "beginsWith" {beginsWith}`,
		`"ü" == object.ü`:                       "1:15 Syntax error: token recognition error at: 'ü'",
		`(`:                                     `1:2 Syntax error: mismatched input '<EOF>'`,
		`1 == "a"`:                              `1:3 found no matching overload for '_==_' applied to '(int, string)'`,
		`object.x.matches("[")`:                 `1:18 invalid matches argument`,
		`object.x.matches(object.y)`:            `1:24 the pattern of matches must be a text in quotes`,
		`matches("a", "b" + "c")`:               `1:18 the pattern of matches must be a text in quotes`,
		`duration("x") == duration("1s")`:       `1:10 invalid duration argument`,
		`"text"`:                                `1:1 must come to true or false, not to a value of type string`,
		`{"a": 1}`:                              `1:1 must come to true or false, not to a value of type map(string, int)`,
		`[1, "a"] == []`:                        `1:5 expected type 'int' but found 'string'`,
		`before.spec == object.spec`:            `1:1 there is no "before" {before}`,
		`has(object)`:                           "1:5 has() asks about a field, as in has(object.status)",
		`has( oldObject ) && op == "x"`:         "1:6 has() takes a field; oldObject is null if the event does not have it: write oldObject != null",
	} {
		x, mistakes := compiler(t).Compile(text)
		if x != nil || len(mistakes) == 0 {
			t.Errorf("%s: no mistake", text)
			continue
		}
		m := mistakes[0]
		got := fmt.Sprintf("%d:%d %s", m.Line, m.Col, m.Message)
		if m.Unknown != "" {
			got += " {" + m.Unknown + "}"
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", text, diff)
		}
	}
	if _, mistakes := compiler(t).Compile(`objekt.x && event.kin == 1`); len(mistakes) < 2 {
		t.Errorf("%d mistakes of two: %+v", len(mistakes), mistakes)
	}
	for _, text := range []string{strings.Repeat("(", 10_000), strings.Repeat("a.", 50_000) + "b", strings.Repeat("x", 200_000), "\x00", "\xff", "'"} {
		if _, mistakes := compiler(t).Compile(text); len(mistakes) == 0 || len(mistakes[0].Message) > 1000 {
			t.Errorf("%.20q: %.200v", text, mistakes)
		}
	}
}

// A failure says where and why, and nothing of the object.
func TestFailures(t *testing.T) {
	const secret = "hunter2"
	e := about(`{"data":{"password":"hunter2","n":"0"},"list":[1],"zero":0,"max":9223372036854775807}`)
	for text, want := range map[string]string{
		`object.status.phase == "x"`:                   "1:14: no such key",
		`object.list[object.zero + 1] == 1`:            "1:12: no such index",
		`object[object.data.password] == 1`:            "1:7: no such key",
		`quantity(object.data.password).isInteger()`:   "1:9: a value that does not fit",
		`int(object.data.password) == 1`:               "1:4: a value that cannot be converted",
		`timestamp(object.data.password) < event.time`: "1:10: a value that cannot be converted",
		`url(object.data.password).getHost() == ""`:    "1:4: a value that does not fit",
		`object.data.password + 1 == 2`:                "1:22: no such function for values of these types",
		`1 / object.zero == 1`:                         "1:3: division by zero",
		`object.max + 1 > 0`:                           "1:12: a number out of range",
		`object.data.password`:                         "1:1: the result is neither true nor false",
		`true &&
  object.nothing`: "2:9: no such key",
		`sets.contains(lists.range(1000), lists.range(1000))`: "1:1: the cost is over the limit of 100000",
	} {
		var decoded any
		_, err := compile(t, text).Holds(e, &decoded)
		if err == nil || strings.Contains(err.Error(), secret) {
			t.Errorf("%s: %v", text, err)
			continue
		}
		if diff := cmp.Diff(want, err.Error()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", text, diff)
		}
		if _, ok := errors.AsType[*when.Failure](err); !ok {
			t.Errorf("%s: the error is a %T", text, err)
		}
	}
}

// TestLongLoops: an evaluation ends by its cost or, on a slow machine, by the time.
func TestLongLoops(t *testing.T) {
	var decoded any
	_, err := compile(t, `lists.range(1000).all(x, lists.range(1000).all(y, x + y >= 0))`).Holds(about(`{}`), &decoded)
	if err == nil || err.Error() != "1:1: the cost is over the limit of 100000" && err.Error() != "1:1: it took longer than 1s" {
		t.Error(err)
	}
}

// TestExpensivePatterns holds patterns, constants and others, against 1.4 MB: the
// evaluation ends by its cost before the search begins, or soon after.
func TestExpensivePatterns(t *testing.T) {
	const large = `"(.{0,50}b?){0,19}z"`
	e := about(`{"data":{"x":"` + strings.Repeat("a", 1_400_000) + `","most":"` + strings.Repeat("a", 400_000) + `","part":"` + strings.Repeat("a", 3_000) + `","list":[` + strings.Repeat("1,", 300) + `1]}}`)
	for _, text := range []string{
		`object.data.x.matches(` + large + `)`,
		`matches(object.data.x, ` + large + `)`,
		`object.data.x.find(` + large + `) == "z"`,
		`object.data.x.findAll(` + large + `).size() == 1`,
		`object.data.most.findAll("a*b|a").size() == 1`,
		`object.data.list.all(i, !object.data.part.matches(` + large + `))`,
	} {
		started := time.Now()
		var decoded any
		_, err := compile(t, text).Holds(e, &decoded)
		if err == nil || !strings.Contains(err.Error(), "the cost is over the limit of 100000") && !strings.Contains(err.Error(), "took longer than 1s") {
			t.Errorf("%s: %v", text, err)
		}
		if took := time.Since(started); took > time.Minute {
			t.Errorf("%s: it took %v", text, took)
		}
	}
	if _, mistakes := compiler(t).Compile(`op.matches("` + strings.Repeat(".{0,1000}", 9) + `")`); len(mistakes) != 1 || !strings.Contains(mistakes[0].Message, "too large") {
		t.Errorf("a program without a limit: %+v", mistakes)
	}
}

// TestSharedDecoding: what one expression has decoded is there for the next one, and
// never for another event.
func TestSharedDecoding(t *testing.T) {
	x := compile(t, `object.spec.list.exists(i, i == 7)`)
	e := about(`{"spec":{"list":[` + strings.Repeat("1,", 150) + `7]}}`)
	alone := testing.AllocsPerRun(20, func() {
		var decoded any
		if ok, err := x.Holds(e, &decoded); !ok || err != nil {
			t.Fatal(ok, err)
		}
	})
	var decoded any
	if ok, err := compile(t, `object.spec.list.size() > 1`).Holds(e, &decoded); !ok || err != nil {
		t.Fatal(ok, err)
	}
	shared := testing.AllocsPerRun(20, func() {
		if ok, err := x.Holds(e, &decoded); !ok || err != nil {
			t.Fatal(ok, err)
		}
	})
	if shared+5 > alone {
		t.Errorf("%v allocations, and %v when the list is decoded already", alone, shared)
	}
	if ok, err := x.Holds(about(`{"spec":{"list":[1]}}`), &decoded); ok || err != nil {
		t.Errorf("another event: %v, %v", ok, err)
	}
}

// TestConcurrent: sinks share nothing, but one route is asked by whoever replays.
func TestConcurrent(t *testing.T) {
	x, e := compile(t, `object.spec.a == 1 && object.spec.b == "x"`), about(`{"spec":{"a":1,"b":"x"}}`)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 100 {
				var decoded any
				if ok, err := x.Holds(e, &decoded); !ok || err != nil {
					t.Errorf("%v, %v", ok, err)
					return
				}
			}
		})
	}
	wg.Wait()
}

// FuzzHolds: no object makes an expression panic, not even inside of CEL, which turns
// that into an error.
func FuzzHolds(f *testing.F) {
	c := compiler(f)
	var all []*when.Expression
	for _, text := range []string{
		`object.metadata.labels.app == "web" && object.status.phase != "Failed"`,
		`has(object.spec.containers) && object.spec.containers.all(c, has(c.resources) && quantity(c.resources.limits.memory).isLessThan(quantity("1Gi")))`,
		`object == object.spec || object.spec in object.list`,
		`object.all(k, v, string(v).matches("^(a|b)*$"))`,
		`object.?status.?conditions.orValue([]).filter(c, c.type == "Ready").map(c, c.status).includes("True")`,
		`object.list.sum() > 1 || object.list.sort() == object.list.distinct() || object.list.max() == object.list.flatten().min()`,
		`"%s %d".format([object, object.n]).contains(object.name) || sets.contains(object.list, object.list)`,
		`cidr(object.name).containsIP(object.ip) || url(object.name).getQuery() == {} || format.uuid().validate(object.name).hasValue()`,
		`timestamp(object.name) < event.time || duration(object.name) > duration("1s") || int(object.n) + 1 > double(object.n)`,
	} {
		x, mistakes := c.Compile(text)
		if len(mistakes) > 0 {
			f.Fatalf("%s: %+v", text, mistakes)
		}
		all = append(all, x)
	}
	for _, text := range []string{
		`{"metadata":{"labels":{"app":"web"}},"status":{"phase":"x","conditions":[{"type":"Ready","status":"True"}]},"spec":{"containers":[{"resources":{"limits":{"memory":"1"}}}]}}`,
		`{"list":[1,2.5,"x",[3],{}],"n":5,"name":"10.0.0.0/8","ip":"10.0.0.1"}`, `{"spec":`, `[]`, `nul`, `{"list":[`, `{"n":"\ud800"}`,
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, object []byte) {
		var compact bytes.Buffer
		valid := json.Compact(&compact, object) == nil
		if valid { // as in events
			object = compact.Bytes()
		}
		e := about(string(object))
		var decoded any
		for _, x := range all {
			_, err := x.Holds(e, &decoded)
			if err != nil && strings.Contains(err.Error(), "inside of CEL") && valid {
				t.Errorf("%q: %v", object, err)
			}
		}
	})
}

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

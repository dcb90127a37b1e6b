package when

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/cel-go/cel"
)

const limit = 100_000

// programs returns expressions over variables of any type by their texts.
func programs(t testing.TB, texts []string, variables ...string) map[string]cel.Program {
	t.Helper()
	declared := append(library(), cel.OptionalTypes(), cel.CrossTypeNumericComparisons(true))
	for _, name := range variables {
		declared = append(declared, cel.Variable(name, cel.DynType))
	}
	env, err := cel.NewEnv(declared...)
	if err != nil {
		t.Fatal(err)
	}
	options, err := programOptions(env, limit)
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]cel.Program{}
	for _, text := range texts {
		checked, issues := env.Compile(text)
		if issues.Err() != nil {
			t.Fatalf("%s: %v", text, issues.Err())
		}
		if all[text], err = env.Program(checked, options...); err != nil {
			t.Fatalf("%s: %v", text, err)
		}
	}
	return all
}

// evaluate returns the result of an expression over the variables s and list.
func evaluate(t *testing.T, text string, variables map[string]any) (any, error) {
	t.Helper()
	program := programs(t, []string{text}, "s", "list")[text]
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	result, _, err := program.ContextEval(ctx, variables)
	if err != nil {
		return nil, err
	}
	return result.Value(), nil
}

// The functions of each of Kubernetes' libraries are there, also where informd bounds their costs.
func TestFunctions(t *testing.T) {
	for _, expression := range []string{
		`quantity("50k").add(quantity("20k")) == quantity("70k") && quantity("50k").sub(20000).asApproximateFloat() == 30000.0`,
		`isQuantity("1.3Gi") && !isQuantity("1,3G") && quantity("50M").compareTo(quantity("50Mi")) == -1 && sign(quantity("-1")) == -1`,
		`quantity(s).isLessThan(quantity("1Ti"))`,
		`semver("1.2.3").isGreaterThan(semver("1.2.2")) && !isSemver(s)`,
		`isQuantity("1e100") && isQuantity("-1E-100") && quantity("1e100").isGreaterThan(quantity("1E")) && quantity("1e-9") == quantity("1n")`,
		`quantity("1e100").add(quantity("1e-100")).sub(quantity("1e100")) == quantity("1n")`,
		`"abc 123".find("[0-9]+") == "123" && "abc 123".find("xyz") == "" && s.find("[a-z]+$") == "i"`,
		`"123 abc 456".findAll("[0-9]+") == ["123", "456"] && "123 abc 456".findAll("[0-9]+", 1) == ["123"] && "123".findAll("xyz") == []`,
		`[1, 2, 3].isSorted() && ["a", "b", "b"].isSorted() && ![2.0, 1.0].isSorted() && [1].isSorted() && list.isSorted()`,
		`[1, 3].sum() == 4 && [1.0, 3.0].sum() == 4.0 && [duration("1m"), duration("1s")].sum() == duration("1m1s") && list.sum() == 7.5`,
		`[1, 3].min() == 1 && [1, 3].max() == 3 && ["b", "a"].min() == "a" && list.max() == 3.5`,
		`[1, 2, 2, 3].indexOf(2) == 1 && ["a", "b", "b", "c"].lastIndexOf("b") == 2 && [1.0].indexOf(1.1) == -1`,
		`[1, 2, 3].includes(2) && ![1, 2, 3].includes(4) && "model-a".includes("model-a") && !"model-a".includes("model-b")`,
		`url("https://[::1]:80/?k=a&k=b").getHostname() == "::1" && url("https://x/?k=a&k=b").getQuery() == {"k": ["a", "b"]} && !isURL("../relative")`,
		`isIP("::1") && ip("127.0.0.1").isLoopback() && cidr("10.0.0.0/8").containsIP("10.1.2.3") && !cidr("10.0.0.0/8").containsIP(ip("11.1.2.3"))`,
		`!format.dns1123Label().validate("my-label").hasValue() && format.named("uuid").value().validate("123e4567").hasValue()`,
		`sets.contains([1, 2, 3], [1]) && [1, 2, 2].distinct() == [1, 2] && "a,b".split(",").join("-") == "a-b" && "%d".format([5]) == "5"`,
		`{"a": 1}.all(k, v, k == "a" && v == 1) && [[1], [2]].flatten() == [1, 2]`,
	} {
		got, err := evaluate(t, expression, map[string]any{"s": "1.5Gi", "list": []any{1.5, 2.5, 3.5}})
		if got != true || err != nil {
			t.Errorf("%s: %v, %v", expression, got, err)
		}
	}
}

func TestErrors(t *testing.T) {
	for expression, want := range map[string]string{
		`quantity("200K").isInteger()`:                                        "unable to parse quantity's suffix",
		`quantity("9999999999999999999999999999999999999G").asInteger() == 1`: "cannot convert value to integer",
		`url("../relative").getHost() == ""`:                                  "URL parse error",
		`list.min() == 1`:                                                     "min called on empty list",
		`quantity("2") == quantity("1").add(1)`:                               "no such overload",
		`lists.range(100000).size() == 1`:                                     "exceeds maximum allowed",
	} {
		got, err := evaluate(t, expression, map[string]any{"s": "[", "list": []any{}})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, %v; want %s", expression, got, err, want)
		}
	}
}

// A single call that would take gigabytes or hours is not made.
func TestDearCalls(t *testing.T) {
	long := strings.Repeat("a", 1<<19)
	many := make([]any, 50_000)
	for i := range many {
		many[i] = int64(i)
	}
	variables := map[string]any{"s": long, "list": many}
	for _, expression := range []string{
		`s.replace("", s).size() > 0`,
		`s.replace("a", s, 1000000).size() > 0`,
		`list.map(x, s).join(s).size() > 0`,
		`[s, s, s, s, s, s].join("").size() > 0`,
		`"%s %s %s %s %s %s %s %s %s %s".format([s, s, s, s, s, s, s, s, s, s]).size() > 0`,
		`sets.contains(list, list)`,
		`sets.equivalent(list, list)`,
		`sets.intersects(list, list)`,
		`list.distinct().size() > 0`,
		`s.substring(0, 50000).findAll("a(a*b)?").size() > 0`,
		`list.all(x, list.all(y, x + y >= 0))`,
		`list.map(x, s + "b").size() > 0`,
	} {
		start := time.Now()
		got, err := evaluate(t, expression, variables)
		if err == nil || !strings.Contains(err.Error(), errTooDear) && !strings.Contains(err.Error(), "cost limit exceeded") &&
			!errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%s: %v, %v", expression, got, err)
		}
		// A loop may end with its context, after a minute.
		if took := time.Since(start); took > 2*time.Minute {
			t.Errorf("%s: took %v", expression, took)
		}
	}
	// What is large and simple is done.
	for _, expression := range []string{`s.contains("b") == false`, `s == s`, `list.size() == 50000`, `list.indexOf(40000) == 40000`, `!s.matches("^b")`, `s.indexOf("-----BEGIN CERTIFICATE-----") == -1`} {
		if got, err := evaluate(t, expression, variables); got != true || err != nil {
			t.Errorf("%s: %v, %v", expression, got, err)
		}
	}
}

// A short string from an object takes neither gigabytes nor minutes.
func TestHugeQuantities(t *testing.T) {
	for _, s := range []string{
		"1e999999999", "-1E999999999", "1e-999999999", "1e2147483647", "1e99999999999999999999", "1e101", "1e-101",
		"1000000000000000000000e999999999", "1.00000000000000000000000001e-999999999", strings.Repeat("9", 65),
	} {
		for _, expression := range []string{
			`quantity(s).isGreaterThan(quantity("1Gi"))`, `quantity(s) == quantity("1")`, `sign(quantity(s).add(1)) == 1`, `sign(quantity("1").sub(quantity(s))) == 1`,
		} {
			start := time.Now()
			if got, err := evaluate(t, expression, map[string]any{"s": s}); err == nil || !strings.Contains(err.Error(), errTooDear) {
				t.Errorf("%s of %s: %v, %v", expression, s, got, err)
			}
			if took := time.Since(start); took > 30*time.Second {
				t.Fatalf("%s of %s: took %v", expression, s, took)
			}
		}
		if got, err := evaluate(t, `isQuantity(s)`, map[string]any{"s": s}); got != false || err != nil {
			t.Errorf("isQuantity(%s): %v, %v", s, got, err)
		}
	}
}

// A call on values of which only the object knows the type is no cheaper for that.
func TestDearCallsOnNestedValues(t *testing.T) {
	const count = 300
	differ := func(first int64) []any { // lists that differ in their last item only
		all := make([]any, count)
		for i := range all {
			all[i] = append(slices.Repeat([]any{int64(0)}, count-1), first+int64(i))
		}
		return all
	}
	wide := differ(0)
	var deep any = slices.Repeat([]any{int64(1)}, 1000)
	for range 500 {
		deep = []any{deep}
	}
	long := slices.Repeat([]any{int64(1), int64(2)}, 10_000)
	text := strings.Repeat("a", 16_000)
	for _, c := range []struct {
		expression string
		s, list    any
	}{
		{`sets.contains(list, s)`, wide, wide},
		{`sets.intersects(list, s)`, wide, differ(count)},
		{`list.distinct().size() > 0`, nil, wide},
		{`list.flatten(1000).size() > 0`, nil, deep},
		{`list.map(x, list).flatten().size() > 0`, nil, long[:400]},
		{`list.sort().size() > 0`, nil, long},
		{`list.indexOf(s) > 0`, text[1:] + "b", text},
		{`list.lastIndexOf(s) > 0`, "b" + text[1:], text},
		{`list.indexOf(s, 1) > 0`, text[1:] + "b", text},
		{`string(list).lastIndexOf(string(s), 3999) > 0`, "b" + text[1:], text},
		{`list.indexOf("aaaaaaaaaaaaaaaaaaab") < 0 && lists.range(1000).all(x, list.indexOf("aaaaaaaaaaaaaaaaaaab") < 0)`, "", text},
	} {
		got, err := evaluate(t, c.expression, map[string]any{"s": c.s, "list": c.list})
		if err == nil || !strings.Contains(err.Error(), errTooDear) && !strings.Contains(err.Error(), "cost limit exceeded") {
			t.Errorf("%s: %v, %v", c.expression, got, err)
		}
	}
	// What an object usually has is done.
	labels := slices.Repeat([]any{map[string]any{"name": "LOG_LEVEL", "value": "a text of some length that is the same for all of them"}}, 50)
	for _, expression := range []string{
		`sets.contains(list, list) && sets.equivalent(list, list) && list.distinct().size() == 1`,
		`list.map(x, list).flatten().size() == 2500`, `list.sortBy(x, x.name).size() == 50`,
		`s.indexOf("d") == 3000 && s.lastIndexOf("da", 3000) == 3000 && s.indexOf("b") == -1`,
	} {
		if got, err := evaluate(t, expression, map[string]any{"s": text[:3000] + "d" + text[:1000], "list": labels}); got != true || err != nil {
			t.Errorf("%s: %v, %v", expression, got, err)
		}
	}
}

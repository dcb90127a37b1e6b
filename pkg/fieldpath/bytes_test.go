package fieldpath_test

import (
	"fmt"
	"slices"
	"strconv"
	"testing"

	"github.com/informd/informd/pkg/fieldpath"
)

func quote(s string) string { return strconv.Quote(s) }

func parseAll(t testing.TB, texts []string) []fieldpath.Path {
	t.Helper()
	var all []fieldpath.Path
	for _, text := range texts {
		p, err := fieldpath.Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, p)
	}
	return all
}

func setOf(t testing.TB, texts []string) *fieldpath.Set {
	t.Helper()
	if texts == nil {
		return nil
	}
	return fieldpath.NewSet(parseAll(t, texts)...)
}

func TestProjection(t *testing.T) {
	const pods = `{"a":{"c":[{"n":1,"i":"x"},{"i":"y"},3,{"n":4}],"p":"q"},"s":{"n":5}}`
	for name, tt := range map[string]struct {
		object     string
		keep, omit []string
		want       string
	}{
		"nothing":            {object: pods, want: pods},
		"first":              {object: pods, omit: []string{"a"}, want: `{"s":{"n":5}}`},
		"last":               {object: pods, omit: []string{"s"}, want: `{"a":{"c":[{"n":1,"i":"x"},{"i":"y"},3,{"n":4}],"p":"q"}}`},
		"all":                {object: pods, omit: []string{"a", "s"}, want: `{}`},
		"middle":             {object: `{"a":1,"b":2,"c":3,"d":4,"e":5}`, omit: []string{"b", "c", "d"}, want: `{"a":1,"e":5}`},
		"every second":       {object: `{"a":1,"b":2,"c":3,"d":4,"e":5}`, omit: []string{"a", "c", "e"}, want: `{"b":2,"d":4}`},
		"elements":           {object: pods, omit: []string{"a.c[].n"}, want: `{"a":{"c":[{"i":"x"},{"i":"y"},3,{}],"p":"q"},"s":{"n":5}}`},
		"whole elements":     {object: pods, omit: []string{"a.c[]"}, want: `{"a":{"c":[],"p":"q"},"s":{"n":5}}`},
		"any key":            {object: pods, omit: []string{"*.n"}, want: `{"a":{"c":[{"n":1,"i":"x"},{"i":"y"},3,{"n":4}],"p":"q"},"s":{}}`},
		"star and name":      {object: `{"d":{"x":{"a":1,"b":2},"y":{"a":1,"b":2}}}`, omit: []string{"d.*.a", "d.x.b"}, want: `{"d":{"x":{},"y":{"b":2}}}`},
		"other types":        {object: pods, omit: []string{"a.p.x", "a[]", "s.n.x"}, want: pods},
		"through an array":   {object: pods, omit: []string{"a.c.n"}, want: `{"a":{"c":[{"i":"x"},{"i":"y"},3,{}],"p":"q"},"s":{"n":5}}`},
		"through arrays":     {object: `{"a":[[{"n":1,"m":2}],{"n":[{"x":1}]}]}`, omit: []string{"a.n"}, want: `{"a":[[{"m":2}],{}]}`},
		"through and ended":  {object: `{"a":[{"n":1},2]}`, keep: []string{"a.n", "a"}, want: `{"a":[{"n":1},2]}`},
		"keep through":       {object: pods, keep: []string{"a.c.i"}, want: `{"a":{"c":[{"i":"x"},{"i":"y"},{}]}}`},
		"star through":       {object: `{"a":[{"n":1},{"m":[2]}],"b":{"n":3}}`, omit: []string{"*.n"}, want: `{"a":[{},{"m":[2]}],"b":{}}`},
		"escaped key":        {object: `{"\u0073pec":1,"a\"b":2,"\\":3,"é":4}`, omit: []string{"spec", `["a\"b"]`, `["\\"]`}, want: `{"é":4}`},
		"key outside ASCII":  {object: `{"\u00e9":1,"é":4}`, omit: []string{`["é"]`}, want: `{}`},
		"duplicates":         {object: `{"a":1,"b":0,"a":{"x":2},"\u0061":3}`, omit: []string{"a"}, want: `{"b":0}`},
		"brackets in text":   {object: `{"a":"}]\\\"{","b":["],",{"c":"}"}],"d":1}`, omit: []string{"a", "b[].c"}, want: `{"b":["],",{}],"d":1}`},
		"backslash at end":   {object: `{"a":"\\","b":"\\\"","c":1}`, omit: []string{"c"}, want: `{"a":"\\","b":"\\\""}`},
		"empty ones":         {object: `{"a":{},"b":[],"c":"","d":null}`, omit: []string{"a.x", "b[]", "c.x", "d[].x"}, want: `{"a":{},"b":[],"c":"","d":null}`},
		"keep one":           {object: pods, keep: []string{"s.n"}, want: `{"s":{"n":5}}`},
		"keep elements":      {object: pods, keep: []string{"a.c[].i"}, want: `{"a":{"c":[{"i":"x"},{"i":"y"},{}]}}`},
		"keep a whole":       {object: pods, keep: []string{"a.c", "a.c[].i"}, want: `{"a":{"c":[{"n":1,"i":"x"},{"i":"y"},3,{"n":4}]}}`},
		"keep nothing there": {object: pods, keep: []string{"z", "s.x"}, want: `{"s":{}}`},
		"keep, other types":  {object: pods, keep: []string{"s.n.x", "a.p[]"}, want: `{"a":{},"s":{}}`},
		"keep duplicates":    {object: `{"a":1,"b":2,"a":3}`, keep: []string{"a"}, want: `{"a":1,"a":3}`},
		"keep, then omit":    {object: pods, keep: []string{"a"}, omit: []string{"a.c[].n", "a.p", "s"}, want: `{"a":{"c":[{"i":"x"},{"i":"y"},3,{}]}}`},
		"omit what is kept":  {object: pods, keep: []string{"s.n"}, omit: []string{"s"}, want: `{}`},
		"numbers":            {object: `{"a":-1.5e+7,"b":true,"c":[1,2.0,null,false],"d":0}`, keep: []string{"b", "c[]", "d"}, want: `{"b":true,"c":[1,2.0,null,false],"d":0}`},
		"keep deep and flat": {object: `{"a":{"a":{"a":1,"b":2},"b":3},"b":4}`, keep: []string{"*.a.a", "a.b"}, want: `{"a":{"a":{"a":1},"b":3}}`},
	} {
		t.Run(name, func(t *testing.T) {
			p := fieldpath.NewProjection(setOf(t, tt.keep), setOf(t, tt.omit))
			if got := string(p.Append([]byte("> "), []byte(tt.object))); got != "> "+tt.want {
				t.Errorf("got  %s\nwant %s", got[2:], tt.want)
			}
		})
	}
}

func TestRewriter(t *testing.T) {
	const object = `{"a":{"c":[{"t":"x"},{"t":5,"u":"y"}],"t":{"t":1}},"\u0074":"z"}`
	for name, tt := range map[string]struct {
		set            []string
		text, declines bool
		want           string
	}{
		"declined":    {set: []string{"a.c[].t", "a.c"}, declines: true, want: `{"a":{"c":[{"t":<0:"x">},{"t":<0:5>,"u":"y"}],"t":{"t":1}},"\u0074":"z"}`},
		"values":      {set: []string{"a.c[].t", "t"}, want: `{"a":{"c":[{"t":<0:"x">},{"t":<0:5>,"u":"y"}],"t":{"t":1}},"\u0074":<1:"z">}`},
		"outer first": {set: []string{"a.t.t", "a.t", "a.*"}, want: `{"a":{"c":<2:[{"t":"x"},{"t":5,"u":"y"}]>,"t":<1:{"t":1}>},"\u0074":"z"}`},
		"text":        {set: []string{"a.c[].t"}, text: true, want: `{"a":{"c":[{"t":<0:"x">},{"t":<0:5>,"u":"y"}],"t":{"t":1}},"\u0074":<-1:"z">}`},
		"text alone":  {text: true, want: `{"a":{"c":[{"t":<-1:"x">},{"t":5,"u":"y"}],"t":{"t":1}},"\u0074":<-1:"z">}`},
		"nothing":     {want: object},
	} {
		t.Run(name, func(t *testing.T) {
			replace := func(dst []byte, m fieldpath.Match) ([]byte, bool) {
				return fmt.Appendf(dst, "<%d:%s>", m.Path, m.Value), m.Path != len(tt.set)-1 || !tt.declines
			}
			r := fieldpath.Rewriter{Set: setOf(t, tt.set), Replace: replace}
			if tt.text {
				r.Text = func(dst []byte, m fieldpath.Match) ([]byte, bool) {
					if string(m.Value) == `"y"` {
						return append(dst, "not to be seen"...), false
					}
					return replace(dst, m)
				}
			}
			if got := string(r.Append([]byte("> "), []byte(object))); got != "> "+tt.want {
				t.Errorf("got  %s\nwant %s", got[2:], tt.want)
			}
		})
	}
}

func TestWalk(t *testing.T) {
	const object = `{"spec":{"a":[1,{"b":"x"}],"c":{"b":2}},"status":null,"spec":3}`
	var got []string
	locations := make(map[string]string)
	setOf(t, []string{"spec", "spec.*.b", "spec.a[].b", "status", "spec.c", "none"}).Walk([]byte(object), func(m fieldpath.Match) {
		got = append(got, fmt.Sprintf("%d=%s", m.Path, m.Value))
		locations[string(m.Value)] = string(m.Location)
	})
	want := []string{`0={"a":[1,{"b":"x"}],"c":{"b":2}}`, `2="x"`, `1="x"`, `4={"b":2}`, `1=2`, `3=null`, `0=3`}
	if !slices.Equal(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
	if locations["2"] != string(fieldpath.Location("spec", "c", "b")) || locations["3"] != string(fieldpath.Location("spec")) {
		t.Errorf("locations %q", locations)
	}
	if string(fieldpath.Location("a", "b")) == string(fieldpath.Location("a\x02b")) {
		t.Error("two places have one location")
	}
}

package fieldpath_test

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/informd/informd/pkg/fieldpath"
)

func TestParse(t *testing.T) {
	for text, want := range map[string]string{
		"spec":          "spec",
		"spec.template": "spec.template",
		`metadata.annotations["example.com/big"]`: `metadata.annotations["example.com/big"]`,
		`["a.b"]["c"].d`:                        `["a.b"].c.d`,
		"status.conditions[].lastHeartbeatTime": "status.conditions[].lastHeartbeatTime",
		"data.*":                                "data.*",
		"*.a":                                   "*.a",
		"a[][].b":                               "a[][].b",
		"*[]":                                   "*[]",
		`a["\u0062\"]"]`:                        `a["b\"]"]`,
		`a[""]`:                                 `a[""]`,
		`$schema.x-y_z0`:                        `$schema.x-y_z0`,
		`a["*"]`:                                `a["*"]`,
		`a["ü"].b`:                              `a["ü"].b`,
		`metadata.labels["app.kubernetes.io/name"]`: `metadata.labels["app.kubernetes.io/name"]`,
	} {
		p, err := fieldpath.Parse(text)
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		again, err := fieldpath.Parse(p.String())
		if err != nil || again.String() != want && p.String() != want {
			t.Errorf("%s is %s, and that %s (%v), want %s", text, p, again, err, want)
		}
	}
}

func TestParseErrors(t *testing.T) {
	for text, want := range map[string]string{
		"":            "at character 1: the path is empty",
		".spec":       "at character 1: a path begins with a key: remove the dot",
		"$.spec":      "at character 1: a path begins with a key: remove $.",
		"[].a":        "at character 1: a path begins with a key: an object is no array",
		"spec.":       "at character 6: a key is missing behind the dot",
		"spec..a":     "at character 6: a key is missing between two dots",
		"spec.[]":     "at character 6: no dot goes before a bracket",
		"a[]b":        `at character 4: 'b' cannot stand here: a key with it goes in brackets and quotes, as in ["a/b"]`,
		"a[0].b":      `at character 2: in brackets there is nothing, for every element, or a key in double quotes, as in ["a/b"]`,
		"a[*]":        `at character 2: in brackets there is nothing, for every element, or a key in double quotes, as in ["a/b"]`,
		"a['b']":      `at character 2: in brackets there is nothing, for every element, or a key in double quotes, as in ["a/b"]`,
		`a["b`:        "at character 3: the quotes have no end",
		`a["b\"]`:     "at character 3: the quotes have no end",
		`a["b"`:       "at character 6: a closing bracket is missing behind the quotes",
		`a["\x"]`:     "at character 3: what is in quotes is not a JSON string",
		"a.b/c":       `at character 4: '/' cannot stand here: a key with it goes in brackets and quotes, as in ["a/b"]`,
		"a./b":        `at character 3: a key with '/' goes in brackets and quotes, as in ["a/b"]`,
		"spec.con*":   "at character 9: * stands for a whole key, not for a part of one",
		"spec.*a":     "at character 7: * stands for a whole key, not for a part of one",
		"spec.a b":    `at character 7: ' ' cannot stand here: a key with it goes in brackets and quotes, as in ["a/b"]`,
		"spec.ü":      `at character 6: a key with 'ü' goes in brackets and quotes, as in ["a/b"]`,
		`spec."a"`:    `at character 6: a key with '"' goes in brackets and quotes, as in ["a/b"]`,
		`a["ü"]..b`:   "at character 8: a key is missing between two dots",
		"metadata.a]": `at character 11: ']' cannot stand here: a key with it goes in brackets and quotes, as in ["a/b"]`,
	} {
		_, err := fieldpath.Parse(text)
		if _, ok := errors.AsType[*fieldpath.SyntaxError](err); !ok || err.Error() != want {
			t.Errorf("%q: %v\nwant %s", text, err, want)
		}
	}
}

// FuzzParse: whatever is typed, what is taken for a path means the same when it is
// printed and read again.
func FuzzParse(f *testing.F) {
	for _, text := range []string{"", "spec.containers[].image", `a["b.c"][].*`, `a["\u0062\"]"]`, "$.x", "a..b", "/x/", "/a*/", "metadata.name.x", "*"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		_, _ = fieldpath.ParseRules([]string{text}, []string{text}, []string{text}, len(text)%2 == 0)
		p, err := fieldpath.Parse(text)
		if err != nil {
			if bad, ok := errors.AsType[*fieldpath.SyntaxError](err); !ok || bad.At < 1 || bad.At > len(text)+1 {
				t.Errorf("%q: %v", text, err)
			}
			return
		}
		again, err := fieldpath.Parse(p.String())
		if err != nil || !reflect.DeepEqual(p, again) {
			t.Errorf("%q is %s, and that %s (%v)", text, p, again, err)
		}
	})
}

func TestRules(t *testing.T) {
	const (
		keep = iota
		omit
		redact
	)
	tests := map[string]struct {
		key      int
		item     string
		metadata bool
		want     string
	}{
		"name":               {omit, "metadata.name", false, "the path identifies the object and is never cut out"},
		"metadata":           {omit, "metadata", false, "the path includes metadata.name, which identifies the object and is never cut out: name a path below it, as in metadata.labels"},
		"kind":               {redact, "kind", false, "the path identifies the object and is never replaced"},
		"everything":         {omit, "*", false, "the path also matches apiVersion, which identifies the object and is never cut out: name the keys"},
		"all metadata":       {redact, "metadata.*", false, "the path also matches metadata.name, which identifies the object and is never replaced: name the keys"},
		"below":              {keep, "metadata.uid.x", false, "metadata.uid is text and has no paths below it"},
		"elements of kind":   {omit, "kind[]", false, "kind is text and has no paths below it"},
		"managed fields":     {keep, "metadata.managedFields[].manager", false, "informd removes metadata.managedFields from every object: remove this path"},
		"last applied":       {redact, `metadata.annotations["kubectl.kubernetes.io/last-applied-configuration"]`, false, `informd removes metadata.annotations["kubectl.kubernetes.io/last-applied-configuration"] from every object: remove this path`},
		"beyond metadata":    {keep, "spec.x", true, "the path matches nothing: with mode: metadata an object has only its metadata; begin the path with metadata, or set mode: full"},
		"open":               {redact, "/x", false, "a regular expression is between slashes, as in /token-[a-z]+/, and keys are joined by dots, as in spec.token"},
		"alone":              {redact, "/", false, "a regular expression is between slashes, as in /token-[a-z]+/, and keys are joined by dots, as in spec.token"},
		"no expression":      {redact, "/(/", false, "not a regular expression (RE2): error parsing regexp: missing closing ): `(`"},
		"empty":              {redact, "//", false, "the regular expression matches the empty text, and so every text: make it match at least one character"},
		"as good as empty":   {redact, "/a*/", false, "the regular expression matches the empty text, and so every text: make it match at least one character"},
		"slash in omit":      {omit, "/spec/x", false, "at character 1: keys are joined by dots, as in spec.template"},
		"kept name":          {keep, "metadata.name", false, ""},
		"kept metadata":      {keep, "metadata", true, ""},
		"omit managed":       {omit, "metadata.managedFields", false, ""},
		"stars":              {omit, "*.labels", true, ""},
		"beside the name":    {omit, "spec.*", false, ""},
		"expression":         {redact, "/(?i)AKIA[0-9A-Z]{16}/", true, ""},
		"expression of path": {redact, "/a/b/", false, ""},
		"annotations":        {redact, "metadata.annotations.*", true, ""},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			lists := [3][]string{}
			lists[tt.key] = []string{tt.item}
			rules, err := fieldpath.ParseRules(lists[keep], lists[omit], lists[redact], tt.metadata)
			got := ""
			if err != nil {
				got = err.Error()
			}
			want := tt.want
			if want != "" {
				want = [3]string{"keep", "omit", "redact"}[tt.key] + " " + quote(tt.item) + ": " + want
			}
			if got != want || (err == nil) != (rules != nil) {
				t.Errorf("%v\nwant %s", got, want)
			}
			if rules.Redacts() != (tt.key == redact && err == nil) {
				t.Error("Redacts is wrong")
			}
		})
	}
	if rules, err := fieldpath.ParseRules(nil, nil, nil, false); rules != nil || err != nil {
		t.Errorf("rules of nothing: %v, %v", rules, err)
	}
}

func TestCuts(t *testing.T) {
	for name, tt := range map[string]struct {
		keep, omit []string
		keys, want string
	}{
		"no rules":              {nil, nil, "spec a", ""},
		"always cut":            {nil, nil, "metadata managedFields x", "by metadata.managedFields"},
		"omitted":               {nil, []string{"spec.a"}, "spec a", "by spec.a"},
		"in what is omitted":    {nil, []string{"spec.a"}, "spec a b", "by spec.a"},
		"around it":             {nil, []string{"spec.a"}, "spec", ""},
		"beside it":             {nil, []string{"spec.a"}, "spec b", ""},
		"omitted by a star":     {nil, []string{"spec.*.b"}, "spec a b", "by spec.*.b"},
		"elements":              {nil, []string{"spec.a[]"}, "spec a", ""},
		"kept":                  {[]string{"spec.a"}, nil, "spec a", ""},
		"in what is kept":       {[]string{"spec.a"}, nil, "spec a b", ""},
		"around what is kept":   {[]string{"spec.a"}, nil, "spec", ""},
		"not kept":              {[]string{"spec.a"}, nil, "spec b", "not kept"},
		"identity":              {[]string{"spec.a"}, nil, "metadata name", ""},
		"around the identity":   {[]string{"spec.a"}, nil, "metadata", ""},
		"beside the identity":   {[]string{"spec.a"}, nil, "metadata labels", "not kept"},
		"kept by a star":        {[]string{"*.a"}, nil, "spec a", ""},
		"elements that it has":  {[]string{"spec.a[].b"}, nil, "spec a", ""},
		"kept and then omitted": {[]string{"spec"}, []string{"spec.a"}, "spec a", "by spec.a"},
	} {
		t.Run(name, func(t *testing.T) {
			rules, err := fieldpath.ParseRules(tt.keep, tt.omit, nil, false)
			if err != nil {
				t.Fatal(err)
			}
			if rules == nil {
				rules = &fieldpath.Rules{}
			}
			got := ""
			switch by, cut := rules.Cuts(strings.Fields(tt.keys)...); {
			case cut && by != nil:
				got = "by " + by.String()
			case cut:
				got = "not kept"
			}
			if got != tt.want {
				t.Errorf("%s: %q, want %q", tt.keys, got, tt.want)
			}
			// And so it is in an object that has it.
			p := rules.Projection()
			if p == nil {
				return
			}
			found := false
			for _, object := range []string{"1", "{}", "[]"} {
				for _, k := range slices.Backward(strings.Fields(tt.keys)) {
					object = fmt.Sprintf("{%q:%s}", k, object)
				}
				setOf(t, []string{strings.ReplaceAll(tt.keys, " ", ".")}).Walk(p.Append(nil, []byte(object)), func(fieldpath.Match) { found = true })
			}
			if found == (got != "") {
				t.Errorf("%s is left: %v", tt.keys, found)
			}
		})
	}
}

func TestRedactsAround(t *testing.T) {
	for item, want := range map[string]bool{
		"metadata.ownerReferences":         true,
		"metadata.ownerReferences[].name":  true,
		`metadata["ownerReferences"].*`:    true,
		"metadata.*.name":                  true,
		"*.ownerReferences":                true,
		"metadata.labels":                  false,
		"metadata.labels.ownerReferences":  false,
		"spec.ownerReferences":             false,
		"metadata[].ownerReferences[].uid": false,
		"/[a-z]+/":                         false,
	} {
		r, err := fieldpath.ParseRules(nil, nil, []string{item}, false)
		if err != nil {
			t.Fatal(err)
		}
		if got := r.RedactsAround("metadata", "ownerReferences"); got != want {
			t.Errorf("%s: %t", item, got)
		}
	}
	if (*fieldpath.Rules)(nil).RedactsAround("metadata") {
		t.Error("no rules redact something")
	}
}

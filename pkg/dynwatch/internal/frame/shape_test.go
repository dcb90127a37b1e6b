package frame_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/informd/informd/internal/form"
	"github.com/informd/informd/pkg/dynwatch/internal/frame"
	"github.com/informd/informd/pkg/fieldpath"
)

const shapeKey = "the key of these tests"

// rules are the three lists of an entry.
type rules struct{ keep, omit, redact []string }

func (r rules) parse(t testing.TB) *fieldpath.Rules {
	t.Helper()
	parsed, err := fieldpath.ParseRules(r.keep, r.omit, r.redact, false)
	must(t, err)
	return parsed
}

func shapedBy(r *fieldpath.Rules) *frame.Normaliser {
	shape := frame.NewShape(frame.ShapeOptions{Rules: r}, frame.NewRedactor([]byte(shapeKey)))
	return frame.NewNormaliser("v1", "Kind", frame.Options{Shape: func() *frame.Shape { return shape }})
}

func (r rules) normaliser(t testing.TB) *frame.Normaliser {
	t.Helper()
	return shapedBy(r.parse(t))
}

func (r rules) reference(namespace, name string) shapeReference {
	ref := shapeReference{keep: refPaths(r.keep), omit: refPaths(r.omit), hash: keyedHash(shapeKey, namespace, name)}
	for _, item := range r.redact {
		if expression, ok := strings.CutPrefix(item, "/"); ok {
			ref.patterns = append(ref.patterns, regexp.MustCompile(strings.TrimSuffix(expression, "/")))
		} else {
			ref.redact = append(ref.redact, refPath(item))
		}
	}
	return ref
}

// FuzzShape holds bytes that come in any form against the reference.
func FuzzShape(f *testing.F) {
	for _, raw := range objects() {
		f.Add(raw, "spec\nmetadata.labels.*", "spec.containers[].image", "status.*\n/[a-z]+/")
	}
	f.Add([]byte(`{"\u0073pec":{"a\/b":[1,{"c":"\ud83d\ude00 x"}]},"metadata":{"name":"a","uid":"u","resourceVersion":"1"}}`), "", `spec["a/b"][].d`, "/x/")
	f.Fuzz(func(t *testing.T, raw []byte, keep, omit, redact string) {
		r := rules{keep: lines(keep), omit: lines(omit), redact: lines(redact)}
		parsed, err := fieldpath.ParseRules(r.keep, r.omit, r.redact, false)
		if err != nil {
			return
		}
		whole, err := frame.NewNormaliser("v1", "Kind", frame.Options{}).Normalise(raw)
		o, shapedErr := shapedBy(parsed).Normalise(raw)
		if (err != nil) != (shapedErr != nil) {
			t.Fatalf("plain %v, shaped %v", err, shapedErr)
		}
		if err != nil {
			return
		}
		got := closed(t, &o)
		if !json.Valid(got) {
			t.Fatalf("not JSON: %s", got)
		}
		object := closed(t, &whole)
		if twice(object) {
			return // decoded, it is another object
		}
		ref := r.reference(o.Namespace, o.Name)
		ref.hash = func(string, []string, string) string { return "<hash>" }
		got = regexp.MustCompile(`hmac-sha256:[0-9a-f]{32}`).ReplaceAll(got, []byte("<hash>"))
		if bytes.Contains(object, []byte("hmac-sha256:")) {
			return
		}
		if want := ref.apply(decodeAny(object)); !reflect.DeepEqual(decodeAny(got), want) {
			t.Fatalf("%+v\nof   %s\ngot  %s\nwant %v", r, object, got, want)
		}
	})
}

func lines(text string) []string {
	return slices.DeleteFunc(strings.Split(text, "\n"), func(line string) bool { return line == "" })
}

// twice reports whether an object in it has a key twice.
func twice(object []byte) bool {
	all := members(object)
	seen := make(map[string]bool)
	for _, m := range all {
		if seen[m.key] || twiceIn(m.value) {
			return true
		}
		seen[m.key] = true
	}
	return false
}

func twiceIn(value json.RawMessage) bool {
	switch value[0] {
	case '{':
		return twice(value)
	case '[':
		var list []json.RawMessage
		if err := json.Unmarshal(value, &list); err != nil {
			panic(err)
		}
		return slices.ContainsFunc(list, twiceIn)
	}
	return false
}

// TestShapeAgain: what is shaped already stays as it is; what is not becomes so.
func TestShapeAgain(t *testing.T) {
	r := rules{
		omit:   []string{"data.gone"},
		redact: []string{"spec.password", "spec.users[].token", "/AKIA[0-9A-Z]{16}/", "/[0-9a-f]{32}/", "/key=.*/"},
	}
	raw := []byte(`{"metadata":{"name":"a","namespace":"shop","uid":"u","resourceVersion":"1"},"data":{"gone":1,"x":"use AKIAABCDEFGHIJKLMNOP, key=1"},` +
		`"spec":{"password":7,"users":[{"token":"hmac-sha256:a"},{"token":{"a":1}}]}}`)
	o, err := r.normaliser(t).Normalise(raw)
	must(t, err)
	shape := frame.NewShape(frame.ShapeOptions{Rules: r.parse(t)}, frame.NewRedactor([]byte(shapeKey)))
	once := bytes.Clone(closed(t, &o))
	if again := shape.Again(o.Namespace, o.Name, once); !bytes.Equal(again, once) {
		t.Errorf("once  %s\nagain %s", once, again)
	}
	plain, err := frame.NewNormaliser("v1", "Kind", frame.Options{}).Normalise(raw)
	must(t, err)
	if now := shape.Again(o.Namespace, o.Name, closed(t, &plain)); !bytes.Equal(now, once) {
		t.Errorf("from the journal %s\nfrom the watch   %s", now, once)
	}
	// What only looks like a hash at its beginning is none.
	for _, text := range []string{"hmac-sha256:" + strings.Repeat("0", 33), "hmac-sha256:" + strings.Repeat("A", 32), "hmac-sha256:" + strings.Repeat("0", 31)} {
		object := fmt.Appendf(nil, `{"spec":{"password":%q}}`, text)
		if bytes.Contains(shape.Again("", "", object), []byte(text)) {
			t.Errorf("%s stays", text)
		}
	}
	if got := (*frame.Shape)(nil).Again("", "", once); !bytes.Equal(got, once) {
		t.Error("no shape changes something")
	}
}

// TestShapeAgainAroundKept: what was redacted as a whole stays, though it has nothing in it
// any more of what is kept; what is not kept does not come back.
func TestShapeAgainAroundKept(t *testing.T) {
	raw := []byte(`{"metadata":{"name":"a","namespace":"shop","uid":"u","resourceVersion":"1"},` +
		`"spec":{"nested":{"a":1,"b":"` + canary + `"},"list":[{"a":{"c":"` + canary + `"}}],"other":"` + canary + `"}}`)
	for name, r := range map[string]rules{
		"any key inside": {keep: []string{"spec.nested.*", "spec.list[].a.c"}, redact: []string{"spec.nested", "spec.list[].a"}},
		"no brackets":    {keep: []string{"spec.nested.a", "spec.list.a.c"}, redact: []string{"spec.nested", "spec.list[]", "spec.other"}},
		"any key around": {keep: []string{"spec.nested.b"}, redact: []string{"spec.*"}},
	} {
		t.Run(name, func(t *testing.T) {
			o, err := r.normaliser(t).Normalise(raw)
			must(t, err)
			shape := frame.NewShape(frame.ShapeOptions{Rules: r.parse(t)}, frame.NewRedactor([]byte(shapeKey)))
			once := bytes.Clone(closed(t, &o))
			if again := shape.Again(o.Namespace, o.Name, once); !bytes.Equal(again, once) || !bytes.Contains(once, []byte("hmac-sha256:")) {
				t.Errorf("once  %s\nagain %s", once, again)
			}
			if now := shape.Again(o.Namespace, o.Name, raw); bytes.Contains(now, []byte(canary)) {
				t.Errorf("from the journal %s", now)
			}
		})
	}
}

// TestShapeHidesFromReports: a report about an object has its bytes only where all of it
// may show.
func TestShapeHidesFromReports(t *testing.T) {
	raw := []byte(`{"metadata":{"name":"a","uid":"u","resourceVersion":"x"},"spec":"` + canary + `"}`)
	for name, tt := range map[string]struct {
		rules
		shown bool
	}{
		"path":    {rules{redact: []string{"spec"}}, false},
		"pattern": {rules{redact: []string{"/x/"}}, false},
		"omit":    {rules{omit: []string{"spec"}}, false},
		"keep":    {rules{keep: []string{"status"}}, false},
		"nothing": {rules{}, true},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := tt.normaliser(t).Normalise(raw)
			if bad, ok := errors.AsType[*frame.Malformed](err); !ok || (bad.Raw != nil) != tt.shown {
				t.Errorf("%v, raw %q", err, bad.Raw)
			}
		})
	}
}

// TestShapeOfNow: the shape is asked for with every object.
func TestShapeOfNow(t *testing.T) {
	var now *frame.Shape
	n := frame.NewNormaliser("v1", "Kind", frame.Options{Shape: func() *frame.Shape { return now }})
	raw := []byte(`{"metadata":{"name":"a","uid":"u","resourceVersion":"1"},"spec":1,"status":2}`)
	for want, r := range map[string]rules{
		`,"status":2}`:          {omit: []string{"spec"}},
		`,"spec":1}`:            {keep: []string{"spec"}},
		`,"spec":1,"status":2}`: {},
	} {
		now = frame.NewShape(frame.ShapeOptions{Rules: r.parse(t)}, nil)
		o, err := n.Normalise(raw)
		must(t, err)
		if full := form.CloseDeletedData(o.Data, false); cap(o.Data) != len(full) {
			t.Errorf("there is room for %d bytes, want %d", cap(o.Data), len(full))
		}
		if got := string(closed(t, &o)); !strings.HasSuffix(got, `"resourceVersion":"1"}`+want) {
			t.Errorf("%+v: %s", r, got)
		}
	}
}

// BenchmarkShape compares what an object costs by the rules of its resource with what
// it costs without; x-plain is how many times that is.
func BenchmarkShape(b *testing.B) {
	for name, r := range map[string]rules{
		"none":    {},
		"keep":    {keep: []string{"metadata.labels", "status.phase", "spec.containers[].image"}},
		"omit":    {omit: []string{"spec.template", "status.conditions[].lastHeartbeatTime", `metadata.annotations["example.com/big"]`}},
		"redact":  {redact: []string{"spec.containers[].env[].value"}},
		"pattern": {redact: []string{"/AKIA[0-9A-Z]{16}/"}},
	} {
		n := r.normaliser(b)
		b.Run(name, func(b *testing.B) { besidePlain(b, n) })
	}
}

// BenchmarkAsked is what it costs to read who wrote last, and the controller.
func BenchmarkAsked(b *testing.B) {
	for name, asked := range map[string]struct{ actor, owner bool }{
		"none": {}, "actor": {actor: true}, "owner": {owner: true},
	} {
		shape := frame.NewShape(frame.ShapeOptions{Actor: asked.actor, Owner: asked.owner}, nil)
		n := frame.NewNormaliser("v1", "Kind", frame.Options{Shape: func() *frame.Shape { return shape }})
		b.Run(name, func(b *testing.B) { besidePlain(b, n) })
	}
}

// besidePlain normalises a Pod with n and, by turns, without any rules.
func besidePlain(b *testing.B, n *frame.Normaliser) {
	b.Helper()
	raw := pod("web-5d4f8c7b9-x2x4z", 12345)
	plain := frame.NewNormaliser("v1", "Pod", frame.Options{})
	b.ReportAllocs()
	b.SetBytes(int64(len(raw)))
	var with, without time.Duration
	for b.Loop() {
		began := time.Now()
		if _, err := n.Normalise(raw); err != nil {
			b.Fatal(err)
		}
		between := time.Now()
		if _, err := plain.Normalise(raw); err != nil {
			b.Fatal(err)
		}
		with += between.Sub(began)
		without += time.Since(between)
	}
	b.ReportMetric(float64(with)/float64(without), "x-plain")
	b.ReportMetric(float64(with.Nanoseconds())/float64(b.N), "with-ns/op")
}

//go:build long

package frame_test

import (
	"bytes"
	"encoding/json"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/informd/informd/pkg/dynwatch/internal/frame"
	"github.com/informd/informd/pkg/fieldpath"
)

// rule makes a path of keys that random objects have.
func (g generator) rule(forKeep bool) string {
	for {
		steps := []string{g.pick("data", "x", "stringData", "annotations", "metadata", "*", "name", `["a\"b"]`)}
		for range g.IntN(4) {
			steps = append(steps, g.pick(".data", ".x", ".*", "[]", "[]", ".labels", ".annotations", `["a\"b"]`, ".name", ".kind"))
		}
		item := strings.Join(steps, "")
		_, err := fieldpath.ParseRules(nil, []string{item}, nil, false)
		if forKeep {
			_, err = fieldpath.ParseRules([]string{item}, nil, nil, false)
		}
		if err == nil {
			return item
		}
	}
}

func (g generator) rules() (r rules) {
	if g.IntN(3) == 0 {
		for range 1 + g.IntN(4) {
			r.keep = append(r.keep, g.rule(true))
		}
	}
	for range g.IntN(4) {
		r.omit = append(r.omit, g.rule(false))
	}
	for range g.IntN(6) {
		item := g.rule(false)
		if _, err := fieldpath.ParseRules(nil, nil, []string{item}, false); err == nil {
			r.redact = append(r.redact, item)
		}
	}
	for range g.IntN(4) {
		r.redact = append(r.redact, g.pick("/[a-z]+/", "/123/", "/2345+6/", `/\\/`, "/é|😀/", "/^data$/", "/n/", `/\b/`, "/x\":/"))
	}
	return r
}

// shapedObjects is how many objects TestShapeEqualsReference shapes.
const shapedObjects = 10_000

// TestShapeEqualsReference: random objects by random rules are what the same rules make
// of them decoded.
func TestShapeEqualsReference(t *testing.T) {
	base := uint64(time.Now().UnixNano())
	plain := frame.NewNormaliser("v1", "Kind", frame.Options{})
	redacted, cut := 0, 0
	for i := range uint64(shapedObjects) {
		g := generator{rand.New(rand.NewPCG(base, i))}
		raw, r := g.object(int(i)), g.rules()
		for len(raw) > 4<<10 && i%100 != 0 {
			raw = g.object(int(i)) // few large ones are enough
		}
		whole, err := plain.Normalise(raw)
		must(t, err)
		object := closed(t, &whole)
		o, err := r.normaliser(t).Normalise(raw)
		must(t, err)
		got := closed(t, &o)
		want := r.reference(o.Namespace, o.Name).apply(decodeAny(object))
		if !json.Valid(got) || !reflect.DeepEqual(decodeAny(got), want) {
			t.Fatalf("seed %d/%d: %+v\nof   %s\ngot  %s\nwant %v", base, i, r, object, got, want)
		}
		if bytes.Contains(got, []byte("hmac-sha256:")) {
			redacted++
		}
		if len(got) < len(object) {
			cut++
		}
	}
	if redacted < shapedObjects/10 || cut < shapedObjects/5 {
		t.Errorf("seed %d: of %d objects %d had anything cut out and %d anything redacted: nothing is proven", base, shapedObjects, cut, redacted)
	}
}

// randomAsked is how many objects TestRandomAsked makes.
const randomAsked = 10_000

func TestRandomAsked(t *testing.T) {
	base := uint64(time.Now().UnixNano())
	found := 0
	for i := range uint64(randomAsked) {
		g := generator{rand.New(rand.NewPCG(base, i))}
		raw := g.asked()
		compareAsked(t, raw)
		if t.Failed() {
			t.Fatalf("seed %d/%d", base, i)
		}
		if refActor(raw) != nil && refOwner(raw) != nil {
			found++
		}
	}
	if found < randomAsked/20 {
		t.Errorf("only %d of %d objects have both", found, randomAsked)
	}
}

//go:build long

package dynwatch_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/informd/informd/pkg/dynwatch"
	"github.com/informd/informd/pkg/event"
)

// What TestRandomChanges does: so many targets, each with so many edits of its entry, and
// so many changes after each.
const (
	randomTargets = 25
	randomEdits   = 5
	randomChanges = 80
)

// secretToken is what values have that a regular expression redacts.
const secretToken = "tok-"

// TestRandomChanges changes random objects under random rules, which are edited
// meanwhile, and has the patches applied to decoded objects: each leads from one event of
// an object to the next. Watches break, histories expire, and the process ends.
func TestRandomChanges(t *testing.T) {
	seed := newSeed(t)
	total := 0
	for i := range randomTargets {
		total += randomlyChanged(t, rand.New(rand.NewPCG(seed, uint64(i))))
		if t.Failed() {
			t.Fatalf("seed %d, target %d", seed, i)
		}
	}
	if least := randomTargets * randomEdits * randomChanges / 2; total < least {
		t.Errorf("%d changes were told, want %d", total, least)
	}
}

func randomlyChanged(t *testing.T, random *rand.Rand) (told int) {
	t.Helper()
	api := newFakeAPI(t)
	revision := regexp.MustCompile(`"spec":\{"rev":(\d+)\}`)
	seed := random.Uint64()
	api.do(func() {
		api.mangle = func(body string) string {
			return revision.ReplaceAllStringFunc(body, func(spec string) string {
				rv, err := strconv.ParseUint(revision.FindStringSubmatch(spec)[1], 10, 64)
				if err != nil {
					panic(err)
				}
				return `"spec":` + randomSpec(seed, rv)
			})
		}
	})
	wanted := randomRules(random)
	r := live(t, api, wanted)
	for edit := range randomEdits {
		if edit > 0 {
			wanted = randomRules(random)
		}
		if random.IntN(4) == 0 {
			r.stop(random.IntN(2) == 0)
			r.begin(wanted)
		} else if err := r.manager.Apply([]dynwatch.Resource{wanted}); err != nil {
			t.Fatal(err)
		}
		r.caughtUp()
		n := len(r.log.all())
		lost := random.IntN(4) == 0
		api.do(func() { api.mute = lost })
		for range randomChanges {
			name := string(rune('p' + random.IntN(4)))
			_, there := api.state()["a/"+name]
			if there && random.IntN(10) == 0 {
				api.del("a", name)
			} else {
				api.put("a", name, fmt.Sprint(random.IntN(3)))
			}
		}
		if lost {
			api.forget()
		}
		api.do(func() { api.mute = false })
		r.caughtUp()
		events := r.log.all()
		told += leadOn(t, events, n)
		redacts := slices.ContainsFunc(wanted.Redact, func(item string) bool { return strings.Contains(item, secretToken) })
		for i := range events[n:] {
			if e := &events[n+i]; redacts && strings.Contains(string(e.Data), secretToken) {
				t.Errorf("with %q: %s", wanted.Redact, e.Data)
			}
		}
		if t.Failed() {
			t.Fatalf("edit %d: %+v", edit, wanted)
		}
	}
	r.stop(false)
	return told
}

// leadOn checks the events from the nth on, which are in one shape, and returns how many
// say what has changed: that is all of what is modified.
func leadOn(t *testing.T, events []event.Event, n int) (told int) {
	t.Helper()
	before := make(map[string]int)
	for i := range events {
		e := &events[i]
		if e.Op.Control() {
			continue
		}
		at, known := before[e.UID]
		before[e.UID] = i
		if i < n || e.Op != event.Modified {
			continue
		}
		last := &events[at]
		if !known || last.ResourceVersion != e.PrevResourceVersion || e.Member(event.MemberPatch) == nil {
			t.Errorf("%s does not say what has changed: %s", e.ID, e.Data)
			continue
		}
		told++
		patch, old := e.Member(event.MemberPatch), e.Member(event.MemberOld)
		if diff := cmp.Diff(decodedJSON(t, e.Object()), patched(t, decodedJSON(t, last.Object()), patch)); diff != "" {
			t.Errorf("%s: the patch %s of\n%s does not lead to (-want +got)\n%s", e.ID, patch, last.Object(), diff)
		}
		if at >= n && string(old) != string(last.Object()) {
			t.Errorf("%s: the object before is\n%s, want\n%s", e.ID, old, last.Object())
		}
		if !json.Valid(e.Data) {
			t.Errorf("%s is no JSON", e.Data)
		}
	}
	return told
}

// randomRules are an entry that asks for all, with rules of some kind.
func randomRules(random *rand.Rand) dynwatch.Resource {
	r := changing()
	some := func(of ...string) (items []string) {
		for _, item := range of {
			if random.IntN(4) == 0 {
				items = append(items, item)
			}
		}
		return items
	}
	r.Keep = some("metadata.labels", "spec", "spec.a", "spec.list[].a", `spec["x y"]`, "spec.nested.*")
	r.Omit = some("metadata.labels", "spec.b", "spec.list[].b", "spec.nested.a", "spec.list")
	r.Redact = some("metadata.labels.*", "spec.a", "spec.list[].a", "spec.nested", "/"+secretToken+"[0-9]+/", "/é+/")
	return r
}

// randomSpec is the spec of an object at a revision: some of its values are others than
// at the one before.
func randomSpec(seed, rv uint64) string {
	value := func(key string, depth int) any { return randomValue(seed, key, rv, depth) }
	spec := make(map[string]any)
	for _, key := range []string{"a", "b", "nested", "x y", "~/", "é"} {
		if v := value(key, 0); v != nil {
			spec[key] = v
		}
	}
	var list []any
	for i := range rv % 5 {
		list = append(list, value(fmt.Sprint("list", i), 2))
	}
	spec["list"] = list
	raw, err := json.Marshal(spec)
	if err != nil {
		panic(err)
	}
	return string(raw)
}

// randomValue is that of a key, which stays for some revisions.
func randomValue(seed uint64, key string, rv uint64, depth int) any {
	lasts := uint64(2 + 3*len(key) + depth)
	random := rand.New(rand.NewPCG(seed^uint64(len(key)+depth)<<8^uint64(key[0]), rv/lasts))
	switch kind := random.IntN(9); {
	case kind == 0:
		return nil
	case kind == 1:
		return random.IntN(2) == 0
	case kind == 2:
		return []any{1, 1.5, -3, 1e30, 0}[random.IntN(5)]
	case kind == 3 || depth > 3:
		return []string{"", secretToken + fmt.Sprint(random.IntN(1000)), `"\`, "éé<>&", "\u2028", "a\nb", "}{]["}[random.IntN(7)]
	case kind < 6:
		list := []any{}
		for i := range random.IntN(4) {
			list = append(list, randomValue(seed, key+fmt.Sprint(i), rv, depth+1))
		}
		return list
	default:
		object := make(map[string]any)
		for _, inner := range []string{"a", "b", "c", "/~"} {
			if random.IntN(3) > 0 {
				object[inner] = randomValue(seed, key+inner, rv, depth+1)
			}
		}
		return object
	}
}

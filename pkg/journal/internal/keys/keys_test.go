package keys_test

import (
	"encoding/binary"
	"maps"
	"math/rand/v2"
	"testing"

	"github.com/informd/informd/pkg/event"
	"github.com/informd/informd/pkg/journal/internal/keys"
)

func key(s *rand.Rand, of int) (k keys.Hash) {
	binary.LittleEndian.PutUint32(k[:], uint32(s.IntN(of)))
	return k
}

func TestTableIsAMap(t *testing.T) {
	for seed := range uint64(10) {
		s := rand.New(rand.NewPCG(seed, 0))
		var table keys.Table
		want := map[keys.Hash]keys.Entry{}
		of := 1 << s.IntN(15)
		for step := range 20000 {
			k := key(s, of)
			switch s.IntN(5) {
			case 0, 1:
				e := keys.Entry{Seq: s.Uint64(), Segment: s.Uint32()}
				table.Set(k, e)
				want[k] = e
			case 2, 3:
				table.Remove(k)
				delete(want, k)
			default:
				got, is := table.Get(k), want[k]
				if (got == nil) != (is == keys.Entry{}) || got != nil && *got != is {
					t.Fatalf("seed %d, step %d: %v, want %v", seed, step, got, is)
				}
			}
		}
		got := map[keys.Hash]keys.Entry{}
		for k, e := range table.All() {
			got[k] = *e
		}
		if !maps.Equal(got, want) {
			t.Fatalf("seed %d: All has %d entries that differ from %d", seed, len(got), len(want))
		}
	}
}

func TestHashesDiffer(t *testing.T) {
	h, other := keys.NewHasher([16]byte{1}), keys.NewHasher([16]byte{2})
	base := event.Event{Op: event.Added, Group: "g", Resource: "r", Namespace: "n", Name: "x", Target: "t", UID: "u"}
	same := base
	same.UID, same.Op, same.Target, same.Version = "v", event.Deleted, "u", "v2"
	if h.Event(&base) != h.Event(&same) {
		t.Error("the key of an object depends on more than its name")
	}
	if h.Event(&base) == other.Event(&base) {
		t.Error("the key does not depend on the secret")
	}
	seen := map[keys.Hash]string{h.Event(&base): "base"}
	add := func(name string, k keys.Hash) {
		t.Helper()
		if of, known := seen[k]; known {
			t.Errorf("%s and %s have one key", of, name)
		}
		seen[k] = name
	}
	for name, e := range map[string]event.Event{
		"moved":   {Op: event.Added, Group: "gr", Namespace: "n", Name: "x"},
		"longer":  {Op: event.Added, Group: "g", Resource: "r", Namespace: "nx"},
		"gap":     {Op: event.Gap, Target: "t"},
		"begin":   {Op: event.Begin, Target: "t"},
		"gap t u": {Op: event.Gap, Target: "tu"},
	} {
		add(name, h.Event(&e))
	}
	add("mark", h.Record(2, "t"))
	add("cursor", h.Record(3, "t"))
}

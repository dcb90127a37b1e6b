package record_test

import (
	"testing"

	"github.com/informd/informd/pkg/event"
	"github.com/informd/informd/pkg/journal/internal/record"
)

func TestHashesDiffer(t *testing.T) {
	h, other := record.NewHasher([16]byte{1}), record.NewHasher([16]byte{2})
	base := event.Event{Op: event.Added, Group: "g", Resource: "r", Namespace: "n", Name: "x", Target: "t", UID: "u"}
	same := base
	same.UID, same.Op, same.Target, same.Version = "v", event.Deleted, "u", "v2"
	if h.Event(&base) != h.Event(&same) {
		t.Error("the key of an object depends on more than its name")
	}
	if h.Event(&base) == other.Event(&base) {
		t.Error("the key does not depend on the secret")
	}
	seen := map[record.Hash]string{h.Event(&base): "base"}
	add := func(name string, k record.Hash) {
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

package frame_test

import (
	"runtime"
	"testing"

	"github.com/informd/informd/pkg/dynwatch/internal/frame"
	"github.com/informd/informd/pkg/event"
)

// allocated is how many bytes were allocated so far.
func allocated() uint64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.TotalAlloc
}

// live is how many bytes are in use after a collection.
func live() uint64 {
	runtime.GC()
	runtime.GC() // pools are emptied in two steps
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// TestStringsPinNothing: who keeps an object's strings keeps neither its data nor
// the buffer that it was read into.
func TestStringsPinNothing(t *testing.T) {
	n := frame.NewNormaliser("v1", "Pod", frame.Options{})
	const objects = 2000
	kept := make([]frame.Object, 0, objects)
	bad := make([]*frame.Malformed, 0, objects)
	before := live()
	for i := range objects {
		raw := pod("web-5d4f8c7b9-x2x4z", uint64(i+1)) // a buffer of its own for each
		o, err := n.Normalise(raw)
		must(t, err)
		o.Data = nil
		kept = append(kept, o)
		_, err = n.Normalise(raw[:len(raw)-1])
		m, ok := err.(*frame.Malformed) //nolint:errorlint // the documented type
		if !ok {
			t.Fatal(err)
		}
		m.Raw, m.Reason = nil, ""
		bad = append(bad, m)
	}
	after := live()
	t.Logf("%d bytes stay for each object and its report", (int64(after)-int64(before))/objects)
	const each = 400 // two blocks of strings and a Malformed
	if after > before && after-before > objects*each {
		t.Errorf("%d bytes stay for each object, want at most %d", (after-before)/objects, each)
	}
	runtime.KeepAlive(kept)
	runtime.KeepAlive(bad)
}

// TestMemoryIsUsedAgain: what is written into a Memory stays until Reset, lies apart from
// what is written before and after it, and needs no new memory after that.
func TestMemoryIsUsedAgain(t *testing.T) {
	n := frame.NewNormaliser("v1", "Kind", frame.Options{})
	const objects = 50
	var m frame.Memory
	var kept [objects]frame.Object
	fill := func(rv int) {
		m.Reset()
		for i := range objects {
			var err error
			if kept[i], err = n.NormaliseInto(&m, small("web", rv+i)); err != nil {
				t.Fatal(err)
			}
		}
		for i := range kept {
			want, err := n.Normalise(small("web", rv+i))
			must(t, err)
			if got := event.CloseDeletedData(kept[i].Data, false); string(got) != string(event.CloseDeletedData(want.Data, false)) {
				t.Errorf("object %d is %s, want %s", i, got, want.Data)
			}
		}
	}
	fill(1000)
	fill(2000) // in what the first round came to, which may be too little
	fill(3000)
	first := &kept[0].Data[0]
	fill(4000)
	if first != &kept[0].Data[0] {
		t.Error("other memory was used, after Reset")
	}
}

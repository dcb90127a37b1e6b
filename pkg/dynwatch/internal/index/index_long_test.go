//go:build long

package index

import (
	"runtime"
	"testing"
)

// TestIndexStaysSmall lets a million objects come and go, a thousand at a time.
func TestIndexStaysSmall(t *testing.T) {
	const alive, all = 1000, 1_000_000
	x := New()
	put := func(i int) {
		x.Put(ID{"shop", podName(i), podUID(i)})
	}
	for i := range alive {
		put(i)
	}
	before := heap()
	for i := alive; i < all; i++ {
		x.Remove(x.Get("shop", podName(i-alive)))
		put(i)
	}
	grown := int64(heap()) - int64(before)
	runtime.KeepAlive(x)
	if x.Len() != alive {
		t.Fatalf("%d entries, want %d", x.Len(), alive)
	}
	if most := int64(200 * alive); grown > most {
		t.Errorf("the index has grown by %d bytes, want at most %d", grown, most)
	}
}

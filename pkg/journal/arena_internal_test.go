package journal

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"testing"
)

// TestArenaKeepsWhatIsHeld keeps pieces of random sizes and gives them back in order, in
// bursts: what is held stays what it was, and the memory stays bounded.
func TestArenaKeepsWhatIsHeld(t *testing.T) {
	for range 50 {
		seed := rand.Uint64()
		t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) {
			r := rand.New(rand.NewPCG(seed, 0))
			size := 64 + r.IntN(1000)
			capacity := size * (1 + r.IntN(10))
			a := newArena(uint64(capacity), size)
			var held, want [][]byte
			bytesHeld := 0
			for step := range 3000 {
				full := r.IntN(2) == 0 // how far the burst goes
				for n := r.IntN(20); n > 0; n-- {
					piece := bytes.Repeat([]byte{byte(step)}, r.IntN(size)>>r.IntN(4))
					if bytesHeld+len(piece) > capacity {
						break
					}
					got := a.keep(piece)
					held, want, bytesHeld = append(held, got), append(want, bytes.Clone(piece)), bytesHeld+len(piece)
					clear(piece)
					_ = append(held[r.IntN(len(held))], "behind it"...)
				}
				for len(held) > 0 && (!full || r.IntN(3) > 0) {
					bytesHeld -= len(held[0])
					a.release(held[0])
					held, want = held[1:], want[1:]
				}
				for i := range held {
					if !bytes.Equal(held[i], want[i]) {
						t.Fatalf("step %d: piece %d is %.40q, want %.40q", step, i, held[i], want[i])
					}
				}
				if n := len(a.used) + len(a.empty); n != a.made || len(a.empty) > a.most {
					t.Fatalf("step %d: %d blocks are in use and %d empty, of %d", step, len(a.used), len(a.empty), a.made)
				}
				if got, most := a.made*a.size, capacity*4/3+2*size; got > most {
					t.Fatalf("step %d: %d bytes for %d in blocks of %d, want at most %d", step, got, capacity, size, most)
				}
			}
		})
	}
}

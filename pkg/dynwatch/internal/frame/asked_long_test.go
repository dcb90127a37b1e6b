//go:build long

package frame_test

import (
	"math/rand/v2"
	"testing"
	"time"
)

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

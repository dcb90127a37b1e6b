package frame_test

import (
	"math/rand/v2"
)

// generator makes random JSON.
type generator struct{ *rand.Rand }

func (g generator) pick(from ...string) string { return from[g.IntN(len(from))] }

//go:build !race

package journal

// poisoned is true with the race detector on.
const poisoned = false

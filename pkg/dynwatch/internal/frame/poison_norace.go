//go:build !race

package frame

// poisoned is true with the race detector on.
const poisoned = false

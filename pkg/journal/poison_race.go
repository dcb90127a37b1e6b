//go:build race

package journal

// poisoned: with the race detector on, what an event carries is spoilt when the last cursor
// has committed it, so that a test sees who has kept it.
const poisoned = true

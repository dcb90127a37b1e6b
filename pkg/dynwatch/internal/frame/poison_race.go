//go:build race

package frame

// poisoned: with the race detector on, the Data of a watch's objects is spoilt when it is
// to be written over, so that a test sees who has kept it.
const poisoned = true

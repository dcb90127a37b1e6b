//go:build race

package frame_test

// poolDrops is how many more allocations the race detector causes: sync.Pool then
// drops at random what is put into it.
const poolDrops = 2

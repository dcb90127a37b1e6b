//go:build race

package daemon

// What one event allocates at most: the race detector makes some of its own, and has
// sync.Pool drop at random what is put into it.
const (
	wayAllocations = 10
	wayBytes       = 12_000
)

//go:build !race

package daemon_test

// What one event allocates at most: its share of what client-go makes for the frames
// that came together, and of a block of strings.
const (
	wayAllocations = 0.8
	wayBytes       = 300
)

//go:build !race

package daemon

// What one event allocates at most: the log's copy of its 5 KB, and its share of what client-go makes for
// the frames that came together, of a block of strings, and of compaction.
const (
	wayAllocations = 2
	wayBytes       = 12_000
)

package cli

import (
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
)

// Little of what informd allocates lives long, and what lives has few pointers to follow: a collection costs about as much
// with a million objects as with a thousand. So the garbage that the heap may hold need not grow with what lives.
const (
	// gcGarbage is how much garbage the heap may hold, in bytes.
	gcGarbage = 8 << 20
	// gcLeast and gcMost bound it in percent of what lives.
	gcLeast, gcMost = 10, 50
)

// limitGarbage has the collector begin by gcGarbage. GOGC in the environment has precedence.
func limitGarbage() {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(gcMost)
		afterNextGC(gcMost)
	}
}

// afterNextGC sets the percentage after each collection. Now is the one that is set.
func afterNextGC(now int) {
	runtime.AddCleanup(new([32]byte), func(now int) {
		live := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
		metrics.Read(live)
		next := int(min(max(gcGarbage*100/max(live[0].Value.Uint64(), 1), gcLeast), gcMost))
		if next != now {
			debug.SetGCPercent(next)
		}
		afterNextGC(next)
	}, now)
}

package journal

import (
	"cmp"
	"log/slog"
	"time"

	"github.com/informd/informd/pkg/event"
)

// Sync says when the log on disk is durable; see [Config].
type Sync string

const (
	// SyncRows syncs an event before a sink reads it if it makes a row there: a new object, a
	// replayed event, a control event. Others are synced each second, as the watch repeats them
	// with the same ids after a power loss. It is the default.
	SyncRows Sync = "rows"
	// SyncAlways syncs every event before a sink reads it.
	SyncAlways Sync = "always"
	// SyncNever leaves it to the operating system: after a power loss, targets take their first
	// list again.
	SyncNever Sync = "never"
)

// Config are the settings of a [Journal]. Dir and Cluster are required; the other zero values are defaults.
type Config struct {
	// Dir is the directory, which belongs to this journal alone. Open makes a missing one.
	Dir string
	// Cluster is the name of the cluster in events, required, and the same as in the options of dynwatch
	// and informer. A journal keeps the one that it began with.
	Cluster string
	// MaxBytes limits the log. Append waits when it is full. The default is 10 GiB, the least 1 MiB.
	MaxBytes int64
	// HistoryPerObject is how many events of an object stay after all sinks have passed them.
	// The default is 16.
	HistoryPerObject int
	// DeletedRetention is how long a deletion stays after that, and how long a sink that is not
	// open gets the deletions of its absence. The default is a week.
	DeletedRetention time.Duration
	// Sync is SyncRows by default.
	Sync Sync
	// Watched reports whether the object or target of an event is still watched; nil: all are.
	// States of others are not announced.
	Watched func(*event.Event) bool
	// Synced is called after each sync of the disk, with how long it took; nil: nobody asks. It must
	// not block.
	Synced func(took time.Duration)
	// Logger is slog.Default() if nil.
	Logger *slog.Logger

	temporary bool          // of OpenTemporary
	segment   int64         // bytes of a segment, and of the tail; 0 but in tests
	patience  time.Duration // how long a call of the disk may take; a minute but in tests
}

func (c Config) withDefaults() Config {
	const week = 7 * 24 * time.Hour
	limit := int64(10 << 30)
	if c.temporary {
		c.Sync, limit = SyncNever, 64<<20
	}
	c.MaxBytes = cmp.Or(max(c.MaxBytes, 0), limit)
	if c.segment == 0 {
		c.MaxBytes = max(c.MaxBytes, 1<<20)
	}
	c.HistoryPerObject = cmp.Or(max(c.HistoryPerObject, 0), 16)
	c.DeletedRetention = cmp.Or(max(c.DeletedRetention, 0), week)
	c.patience = cmp.Or(max(c.patience, 0), time.Minute)
	if c.Watched == nil {
		c.Watched = func(*event.Event) bool { return true }
	}
	c.Sync = cmp.Or(c.Sync, SyncRows)
	c.Logger = cmp.Or(c.Logger, slog.Default())
	return c
}

// segmentBytes is the size of a segment. A small log has at least 16 of them.
func (c Config) segmentBytes() (segment int64, tail int) {
	if c.segment > 0 {
		return c.segment, int(c.segment)
	}
	return min(16<<20, max(c.MaxBytes/16, 64<<10)), tailBytes
}

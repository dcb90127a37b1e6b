package journal

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/informd/informd/internal/display"
	"github.com/informd/informd/pkg/journal/internal/disk"
	"github.com/informd/informd/pkg/journal/internal/wal"
)

const (
	leastReserve = 64 << 20
	mostReserve  = 1 << 30
	// lookEvery is the time between two looks at the disk.
	lookEvery = time.Second
)

// errReplaced says that another process may use the name of the directory now.
var errReplaced = errors.New("the directory of the journal was removed or replaced; the process ends, and the next one begins with what is there")

// guard is what is known of the disk.
type guard struct {
	// full is since when Append waits for space, and said whether that was logged. Of one goroutine.
	full time.Time
	said bool
	// looking is the look at the disk in progress.
	looking disk.Stopwatch
	reason  atomic.Pointer[string] // why the journal cannot be written; empty or nil if it can
}

// State reports whether the journal can be written, and why not. It never blocks.
func (j *Journal) State() (ok bool, reason string) {
	if waiting := j.waiting(); waiting > j.config.patience {
		return false, fmt.Sprintf("the file system of journal.dir %s has not answered for %s: check it, and restart informd", j.config.Dir, waiting.Round(time.Second))
	}
	if why := j.guard.reason.Load(); why != nil {
		reason = *why
	}
	return reason == "", reason
}

// Hung reports whether the disk has not answered for a minute. Only a restart helps then.
func (j *Journal) Hung() bool { return j.waiting() > j.config.patience }

// waiting is for how long the disk has not answered those who ask it each second.
func (j *Journal) waiting() time.Duration {
	return max(j.log.Syncer.Watch.Elapsed(), j.guard.looking.Elapsed())
}

// Removed reports whether the directory was removed or replaced.
func (j *Journal) Removed() bool { return errors.Is(j.log.Monitor.Failure(), errReplaced) }

// watchDisk looks at the disk each second until ctx ends.
func (j *Journal) watchDisk(ctx context.Context) {
	ticker := time.NewTicker(lookEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		if !j.lookAtDisk() {
			return
		}
	}
}

// lookAtDisk reports false if the directory is not that of the journal any more.
func (j *Journal) lookAtDisk() bool {
	j.guard.looking.Start()
	defer j.guard.looking.Stop()
	if j.dir.Replaced() {
		replaced := errReplaced.Error()
		j.guard.reason.Store(&replaced)
		j.log.Monitor.Fail(errReplaced)
		return false
	}
	free, total, err := j.dir.Free()
	if err != nil {
		failed := err.Error()
		j.guard.reason.Store(&failed)
	} else {
		j.fit(int64(min(free, 1<<62)), int64(min(total, 1<<62)))
	}
	return true
}

// fit sets the limit of the log by the free space of the disk, of which a reserve stays free for
// compaction.
func (j *Journal) fit(free, total int64) {
	stats := j.log.Writer.Stats()
	reserve := min(max(total/50, leastReserve), mostReserve)
	if j.config.temporary { // often on a small file system of its own
		reserve = min(reserve, total/8)
	}
	room := max(stats.Bytes+free-reserve, 0)
	j.log.Writer.SetLimit(min(j.config.MaxBytes, room))
	reason := ""
	if stats.Blocked > 0 && room < j.config.MaxBytes && stats.Bytes >= room {
		reason = fmt.Sprintf("the disk of journal.dir %s has %d MiB free, and %d MiB stay in reserve: free some space", j.config.Dir, free>>20, reserve>>20)
	}
	j.guard.reason.Store(&reason)
	j.reportFull(stats)
	if stats.Blocked > 0 {
		wal.Signal(j.shift)
	}
}

// fullFor is how long Append waits until that is an error for the operator. Compaction may help
// before.
const fullFor = 10 * time.Second

// reportFull logs when watches wait for space in the log, and when they go on.
func (j *Journal) reportFull(stats wal.Stats) {
	g := &j.guard
	switch {
	case stats.Blocked == 0:
		if g.said {
			j.config.Logger.Info("journal has space again; watches go on")
		}
		g.full, g.said = time.Time{}, false
	case g.full.IsZero():
		g.full = time.Now()
	case !g.said && time.Since(g.full) > fullFor:
		g.said = true
		j.config.Logger.Error("journal full; watches paused until space is free", "bytes", stats.Bytes, "max_bytes", stats.Limit,
			"next", "raise journal.maxBytes, or have the sinks deliver what they lack",
			"runbook", display.AlertRunbook("InformdTargetBlocked"))
	}
}

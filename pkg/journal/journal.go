package journal

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/informd/informd/internal/display"
	"github.com/informd/informd/internal/form"
	"github.com/informd/informd/pkg/event"
	"github.com/informd/informd/pkg/journal/internal/disk"
	"github.com/informd/informd/pkg/journal/internal/record"
	"github.com/informd/informd/pkg/journal/internal/wal"
)

// Journal is a [Log] in a directory that sinks can read. It is the state of informd: events, checkpoints,
// cursors and dead letters are in it, and a later process continues from it. Package wal has the form of
// the files, and what a crash leaves. All methods may be called concurrently.
type Journal struct {
	config Config
	dir    *disk.Directory // nil in tests
	log    *wal.Log
	opened time.Time
	runs   form.Runs
	guard  guard
	stop   context.CancelFunc
	done   sync.WaitGroup
	dirty  chan struct{} // one signal: a cursor has something to save
	shift  chan struct{} // one signal: compaction is worth a look

	largeLetters sync.Once // logs that they are stored without data
	emptied      sync.Once // logs that last states have lost their data

	// compacting is held by removeUnneeded, which removes what the cursors that it knows do not need, and by Open
	// until it has seen what was removed before.
	compacting sync.Mutex

	mu      sync.Mutex
	cursors map[string]*Cursor
	absent  map[string]position // of sinks that are not open
	lost    uint64
	dropped map[string]uint64
}

// Open opens the journal in a directory, and locks it. It reads the index files of all segments and
// the records of the newest one. If the log was damaged, it declares what is missing: checkpoints
// are void, and sinks get a gap.
func Open(c Config) (*Journal, error) {
	c = c.withDefaults()
	if c.Cluster == "" {
		return nil, errors.New("open journal: Cluster is required")
	}
	d, err := openDir(c.Dir, c.Logger)
	if err != nil {
		return nil, err
	}
	j, err := openIn(d, c)
	if err != nil {
		return nil, err
	}
	if j.log.Void {
		c.Logger.Error("journal lacks events that it had; all targets take their first list again, and sinks get a gap",
			"dir", c.Dir, "next", "check the disk; after a power loss, see journal.sync",
			"runbook", display.AlertRunbook("InformdJournalLostEvents"))
	}
	return j, nil
}

// openDir locks a directory, and makes a missing one.
func openDir(path string, logger *slog.Logger) (*disk.Directory, error) {
	if err := makeDir(path); err != nil {
		return nil, err
	}
	d, warning, err := disk.Open(path)
	if warning != "" {
		logger.Warn("journal directory open to others", "reason", warning, "next", "change its mode (chmod)")
	}
	return d, err
}

func makeDir(path string) error {
	if err := os.MkdirAll(path, 0o700); err != nil {
		return fmt.Errorf("create journal.dir: %w; set it to a directory that this user may create", err)
	}
	return nil
}

// openIn opens the journal in a directory, which it closes after an error.
func openIn(d *disk.Directory, c Config) (*Journal, error) {
	j, err := openOn(d, c, bootID())
	if err != nil {
		return nil, errors.Join(fmt.Errorf("open the journal in %s: %w", c.Dir, err), d.Close())
	}
	j.dir = d
	j.keep()
	return j, nil
}

// bootID identifies the boot of this machine. On a system that has none, each start counts as one
// after a power loss.
func bootID() string {
	id, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return fmt.Sprint("unknown ", time.Now().UnixNano())
	}
	return strings.TrimSpace(string(id))
}

// openOn opens the journal in any directory, without the goroutines.
func openOn(d disk.Dir, c Config, boot string) (*Journal, error) {
	segment, tail := c.segmentBytes()
	options := wal.Options{
		SegmentBytes: segment, TailBytes: tail, Hard: c.hard, Unsynced: c.Sync == SyncNever, Synced: c.Synced, Boot: boot, Logger: c.Logger,
	}
	if err := prepareCopy(d, &options); err != nil {
		return nil, err
	}
	log, err := wal.Open(d, options)
	if err != nil {
		return nil, err
	}
	log.Writer.SetLimit(c.MaxBytes)
	j := &Journal{
		config: c, log: log, opened: time.Now(), dirty: make(chan struct{}, 1), shift: make(chan struct{}, 1),
		cursors: map[string]*Cursor{}, absent: map[string]position{}, dropped: map[string]uint64{},
	}
	err = disk.Remove(d, copyFile)
	if options.Copied && err == nil {
		err = d.Sync() // it must not come back: what follows is no copy
	}
	if err == nil {
		err = keepCluster(log, c.Cluster)
	}
	if err == nil {
		err = j.loadAbsent()
	}
	if err != nil {
		log.Abandon()
		return nil, err
	}
	if log.Void {
		j.lost = 1
	}
	return j, nil
}

// keepCluster notes the name of the cluster in a new journal, and compares it in another.
func keepCluster(log *wal.Log, cluster string) error {
	const name = "cluster"
	kept, ok := log.Keys.Get(record.Binding, name)
	switch {
	case !ok:
		return log.Writer.Put(record.Binding, name, []byte(cluster))
	case string(kept.Value) != cluster:
		return fmt.Errorf("its events are of the cluster %q, and the config names %q: set cluster back, or use an empty journal.dir, which begins with a new snapshot", kept.Value, cluster)
	}
	return nil
}

// Cluster is the name of the cluster: see [Config].
func (j *Journal) Cluster() string { return j.config.Cluster }

// tailBytes is how much of the newest events stays in memory.
const tailBytes = 6 << 20

// keep starts the goroutines.
func (j *Journal) keep() {
	var ctx context.Context
	ctx, j.stop = context.WithCancel(context.Background())
	j.done.Go(func() { j.saveCursors(ctx) })
	j.done.Go(func() { j.compact(ctx) })
	j.done.Go(func() { j.watchDisk(ctx) })
}

// hard reports whether an event makes a row at a destination, or is needed to decide about later
// ones: a sink may read it when it is on the disk. No watch brings again that an object has left,
// if its Namespace matches again at the next start.
func (c *Config) hard(e *event.Event) bool {
	if c.Sync != SyncRows {
		return c.Sync == SyncAlways
	}
	switch e.Op {
	case event.State:
		return false
	case event.Begin, event.Synced, event.Gap, event.Snapshot, event.Added, event.Entered, event.Left:
		return true
	case event.Modified, event.Deleted:
	}
	return e.Replay || e.Unchanged != nil // later ones are compared with it
}

// Append implements [Log].
func (j *Journal) Append(ctx context.Context, events []event.Event) error {
	err := j.log.Writer.Append(ctx, events)
	if stats := j.log.Writer.Stats(); stats.Bytes > stats.Limit/100*shortAt {
		wal.Signal(j.shift)
	}
	return err
}

// Forget implements [Log].
func (j *Journal) Forget(ctx context.Context, objects []event.Event) error {
	return j.log.Writer.Forget(ctx, objects)
}

// Restore implements [Log].
func (j *Journal) Restore(ctx context.Context, target string, last func(event.Event)) (Checkpoint, error) {
	if err := ctx.Err(); err != nil {
		return Checkpoint{}, err
	}
	if err := j.log.History.EachLast(target, last); err != nil {
		return Checkpoint{}, err
	}
	mark, void := j.mark(target)
	if mark == nil && j.log.Void { // the damage may have taken it; an empty one says so to a later process
		void = true
		if err := j.Mark(ctx, target, nil); err != nil {
			return Checkpoint{}, err
		}
	}
	return Checkpoint{Mark: mark, Void: void, Elsewhere: func() int { return j.elsewhere(target) }}, j.log.Monitor.Failure()
}

// elsewhere counts the objects of targets that cover some of those of a target: the one of all namespaces, or
// those of single ones.
func (j *Journal) elsewhere(target string) int {
	resource, _, single := strings.Cut(target, "@")
	return j.log.Keys.CountLast(func(other string) bool {
		return single && other == resource || !single && strings.HasPrefix(other, resource+"@")
	})
}

// mark returns the checkpoint of a target, nil without one.
func (j *Journal) mark(target string) (mark []byte, void bool) {
	found, ok := j.log.Keys.Get(record.Mark, target)
	return found.Value, ok && (found.Seq < j.log.Damage || len(found.Value) == 0)
}

// Checkpointed reports whether a target has a valid checkpoint.
func (j *Journal) Checkpointed(target string) (bool, error) {
	mark, void := j.mark(target)
	return mark != nil && !void, j.log.Monitor.Failure()
}

// Mark implements [Log]. The mark lies behind the events that it counts on, so a power loss that
// takes one of them takes it as well. It waits while the disk is full.
func (j *Journal) Mark(ctx context.Context, target string, mark []byte) error {
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		err := j.log.Writer.Put(record.Mark, target, mark)
		if !disk.IsFull(err) {
			return err
		}
		if err := j.log.Writer.Pause(ctx); err != nil {
			return err
		}
	}
}

// Last implements [Log].
func (j *Journal) Last(ctx context.Context, of *event.Event) (event.Event, bool, error) {
	if err := ctx.Err(); err != nil {
		return event.Event{}, false, err
	}
	e, err := j.log.History.LastOf(of)
	if errors.Is(err, wal.ErrGone) {
		return event.Event{}, false, nil
	}
	if err != nil {
		j.log.Monitor.Fail(err) // the caller cannot go on, and a new process can
	}
	return e.Event, err == nil, err
}

// Failed implements [Log].
func (j *Journal) Failed() <-chan struct{} { return j.log.Monitor.Failed() }

// Failure implements [Log].
func (j *Journal) Failure() error { return j.log.Monitor.Failure() }

// Bind notes the cluster that the journal belongs to, by the UID of its namespace kube-system. If
// it belongs to another one it returns an error and changes nothing.
func (j *Journal) Bind(ctx context.Context, clusterUID string) error {
	bound, ok := j.log.Keys.Get(record.Binding, "")
	switch {
	case !ok:
		if err := j.log.Writer.Put(record.Binding, "", []byte(clusterUID)); err != nil {
			return err
		}
		return j.log.Syncer.Sync(ctx)
	case string(bound.Value) != clusterUID:
		return fmt.Errorf("the journal in %s belongs to another Kubernetes cluster: its kube-system has the UID %s, this one's %s; "+
			"give each cluster its own journal.dir", j.config.Dir, bound.Value, clusterUID)
	}
	return nil
}

// Stats returns the current statistics of the journal.
func (j *Journal) Stats() Stats {
	s := j.log.Writer.Stats()
	j.mu.Lock()
	defer j.mu.Unlock()
	return Stats{
		Events: s.Events, Bytes: uint64(s.Bytes), Capacity: uint64(max(0, s.Limit)), LastSeq: j.log.Keys.Last(), Blocked: s.Blocked,
		Lost: j.lost, Dropped: maps.Clone(j.dropped), Appended: s.Appended, Written: s.Written,
	}
}

func (j *Journal) open() (all []*Cursor) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, c := range j.cursors {
		all = append(all, c)
	}
	return all
}

// comeBack is how long after the start sinks that were open before count as open.
const comeBack = time.Minute

// passed returns the sequence that every open cursor has passed for good, and the one that every
// sink which may return has. They are not known while no cursor is open that may be soon: one of before, or the
// first. Of a journal without readers all is passed, or it would fill up for good.
func (j *Journal) passed() (open, all uint64, known bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	soon := time.Since(j.opened) < comeBack
	for _, p := range j.absent {
		soon = soon || time.Since(p.Left) < j.config.DeletedRetention
	}
	if len(j.cursors) == 0 && soon {
		return 0, 0, false
	}
	open = j.log.Keys.Last()
	for _, c := range j.cursors {
		open = min(open, c.durable())
	}
	all = open
	if j.config.temporary {
		return open, all, true
	}
	for _, p := range j.absent {
		if time.Since(j.opened) < comeBack {
			open = min(open, p.Seq)
		}
		if time.Since(p.Left) < j.config.DeletedRetention {
			all = min(all, p.Seq)
		}
	}
	return open, min(open, all), true
}

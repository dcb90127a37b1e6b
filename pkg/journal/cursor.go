package journal

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strings"
	"sync"
	"time"

	"github.com/informd/informd/pkg/journal/internal/record"
	"github.com/informd/informd/pkg/journal/internal/wal"
)

const (
	// sinkName and requestsName begin the names of the records of a sink.
	sinkName     = "sink/"
	requestsName = "resnapshots/"
	gapsName     = "gaps/"
	// saveEvery is the least time between two saves of a position. After a crash a sink gets
	// again what it got since the last one.
	saveEvery = 200 * time.Millisecond
)

// position is what the log keeps of a cursor.
type position struct {
	// Seq is the committed sequence.
	Seq uint64 `json:"seq"`
	// Snapshot: the sink has not got all of its first snapshot. It was new at Seq.
	Snapshot bool `json:"snapshot,omitempty"`
	// Detached is up to where the sink may lack the events before.
	Detached uint64 `json:"detached,omitempty"`
	// Incomplete is up to where ends of snapshots are left out, because events before may be missing: a consumer
	// would take their objects for deleted ones. Damage has taken them, and the first lists that follow have their
	// own ends; or the sink came back too late, the log had removed them, and the last ones of their objects follow.
	Incomplete uint64 `json:"incomplete,omitempty"`
	// Run is that of the last rewind. Events up to Until belong to it.
	Run   uint64 `json:"run,omitempty"`
	Until uint64 `json:"until,omitempty"`
	// Left is when the sink was last open; zero while it is, and after a crash.
	Left time.Time `json:"left,omitzero"`
	// Acknowledged is the highest sequence that the destination has acknowledged.
	Acknowledged uint64 `json:"acknowledged,omitempty"`
	// Note is the reader's own.
	Note string `json:"note,omitempty"`
}

// Cursor is the position of one reader in the log. It belongs to one goroutine. Other goroutines may
// call Commit, Lag, Rewindable, Close, and the methods about notes, gaps and requests.
type Cursor struct {
	journal *Journal
	name    string
	opened  time.Time
	news    chan struct{} // one signal: there may be more to read
	closed  chan struct{} // with the lock of the journal
	reading chan struct{} // holds a value while a call uses queue and the sources
	saving  sync.Mutex    // held while the position or the requests are written

	mu       sync.Mutex
	position position
	saved    position // if kept
	kept     bool
	next     uint64 // the sequence to read next
	last     uint64 // a commit of it passes all that was read
	floor    uint64 // a commit below it is within the first snapshot
	// oldest is when the first of the events that were read and not committed was appended.
	oldest    time.Time
	oldestSeq uint64
	requests  requests

	// Of the call that reads:
	queue  []Entry
	files  *wal.Reader // nil while the tail has the next event
	states *states     // a snapshot in progress
}

// loadAbsent reads the positions of all sinks. After a crash they count as left now, also for later
// processes.
func (j *Journal) loadAbsent() error {
	for _, n := range j.log.Keys.All(record.Cursor) {
		name, ok := strings.CutPrefix(n.Name, sinkName)
		p, err := decodePosition(n.Value)
		if !ok || err != nil {
			continue // Open of the cursor says it
		}
		if p.Left.IsZero() {
			p.Left = time.Now().UTC().Truncate(time.Microsecond)
			if err = j.put(n.Name, p); err != nil {
				return fmt.Errorf("note when sink %s was last open: %w", name, err)
			}
		}
		j.absent[name] = p
	}
	return nil
}

// put replaces a record of a sink.
func (j *Journal) put(name string, value any) error {
	text, err := json.Marshal(value)
	if err != nil {
		return fmt.Errorf("encode %s: %w", name, err)
	}
	return j.log.Writer.Put(record.Cursor, name, text)
}

func decodePosition(value []byte) (p position, err error) {
	if err := json.Unmarshal(value, &p); err != nil {
		return p, fmt.Errorf("position of a sink in the journal: %w", err)
	}
	return p, nil
}

// Open returns the cursor of that name, which must not be open. A known cursor resumes after its last
// commit; a new one begins at start.
func (j *Journal) Open(name string, start Start) (*Cursor, error) {
	c := &Cursor{
		journal: j, name: name, opened: time.Now(),
		news: make(chan struct{}, 1), closed: make(chan struct{}), reading: make(chan struct{}, 1),
	}
	if err := j.log.Monitor.Failure(); err != nil {
		return nil, err
	}
	kept, known := j.log.Keys.Get(record.Cursor, sinkName+name)
	var err error
	if known {
		c.position, err = decodePosition(kept.Value)
	} else {
		c.position.Seq = j.log.Keys.Last()
		c.position.Snapshot = start == FromSnapshot && c.position.Seq > 0
	}
	if err != nil {
		return nil, fmt.Errorf("open cursor %q: %w", name, err)
	}
	if known {
		c.saved, c.kept = c.position, true
	}
	// A minute early: the policy of a pass that is in progress may count from a moment later.
	unkept := known && (j.config.temporary || time.Since(c.position.Left) >= j.config.DeletedRetention-time.Minute)
	c.next = c.position.Seq + 1
	incomplete := max(c.position.Incomplete, j.log.Damage)
	if err := j.register(c); err != nil {
		return nil, err
	}
	j.log.Monitor.Listen(c.news)
	if unkept {
		j.compacting.Lock() // what a pass that began later removes, this cursor has passed
		var missing uint64
		missing, err = c.findMissing()
		j.compacting.Unlock()
		incomplete = max(incomplete, missing)
	}
	// Both at once: a position without Left says that nothing has been removed but what Incomplete says.
	c.mu.Lock()
	c.position.Left, c.position.Incomplete = time.Time{}, incomplete
	c.mu.Unlock()
	if err == nil {
		err = c.save()
	}
	if err == nil && !known { // a sink must not get events before its position is durable
		err = j.log.Syncer.Sync(context.Background())
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("open cursor %q: %w", name, err), c.Close())
	}
	c.loadRequests()
	c.beginSnapshot()
	return c, nil
}

// findMissing returns up to where events were removed while the log kept nothing for the sink, 0 if none were.
func (c *Cursor) findMissing() (end uint64, err error) {
	log, next := c.journal.log, c.next
	if end = log.Keys.Last(); end < next {
		return 0, nil
	}
	has, err := log.History.Count(next, end)
	if end-next+1 > has+log.Skipped(next, end) {
		return end, err
	}
	return 0, err
}

func (j *Journal) register(c *Cursor) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.cursors[c.name] != nil {
		return fmt.Errorf("open cursor %q: it is already open", c.name)
	}
	j.cursors[c.name] = c
	delete(j.absent, c.name)
	return nil
}

// beginSnapshot makes the snapshot the source if the sink has not got all of it.
func (c *Cursor) beginSnapshot() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.position.Snapshot {
		return
	}
	c.states, c.floor = newFirstSnapshot(c), math.MaxUint64
}

// Commit records that this reader needs no entry up to and including seq again. The journal may remove
// entries that all cursors have passed. A seq below the committed one changes nothing. Commit does not
// wait: the position is saved within 200 ms, and at Close.
func (c *Cursor) Commit(seq uint64) error {
	if c.isClosed() {
		return ErrClosed
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if end := max(c.journal.log.Keys.Last(), c.next-1); seq > end {
		return fmt.Errorf("commit %d of cursor %q: the journal ends at %d", seq, c.name, end)
	}
	if seq < c.floor || seq <= c.position.Seq && !c.position.Snapshot {
		return nil
	}
	if c.position.Snapshot {
		wal.Signal(c.news) // what is requested has its turn
	}
	c.position.Seq, c.position.Snapshot = seq, false
	c.next = max(c.next, seq+1)
	c.settle()
	if seq >= c.oldestSeq {
		c.oldest = time.Time{}
	}
	wal.Signal(c.journal.dirty)
	return nil
}

// settle passes what was read and is left out, if all before it is committed. The lock is held.
func (c *Cursor) settle() {
	if p := &c.position; !p.Snapshot && p.Seq >= c.last && p.Seq < c.next-1 {
		p.Seq = c.next - 1
		wal.Signal(c.journal.dirty)
	}
}

func (c *Cursor) isClosed() bool {
	select {
	case <-c.closed:
		return true
	case <-c.journal.log.Monitor.Failed():
		return errors.Is(c.journal.log.Monitor.Failure(), ErrClosed)
	default:
		return false
	}
}

// save writes the position if it has changed.
func (c *Cursor) save() error {
	c.saving.Lock()
	defer c.saving.Unlock()
	c.mu.Lock()
	p, same := c.position, c.kept && c.position == c.saved
	c.mu.Unlock()
	if same {
		return nil
	}
	return c.write(p)
}

// write makes p the kept position. It is called with saving held.
func (c *Cursor) write(p position) error {
	if err := c.journal.put(sinkName+c.name, p); err != nil {
		return err
	}
	c.mu.Lock()
	c.saved, c.kept = p, true
	c.mu.Unlock()
	return nil
}

// durable is the sequence up to which no event is needed again.
func (c *Cursor) durable() uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return min(c.saved.Seq, c.position.Seq)
}

// saveCursors writes what cursors have committed, until ctx ends.
func (j *Journal) saveCursors(ctx context.Context) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-j.dirty:
		}
		for _, c := range j.open() {
			if err := c.save(); err != nil && j.log.Monitor.Failure() == nil {
				wal.Signal(j.dirty) // the disk is full
			}
		}
		timer.Reset(saveEvery)
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		}
	}
}

// Lag is the size and age of the uncommitted events.
func (c *Cursor) Lag() Lag {
	if c.isClosed() {
		return Lag{}
	}
	end := c.journal.log.Keys.Last()
	c.mu.Lock()
	p, oldest := c.position, c.oldest
	c.mu.Unlock()
	lag := Lag{Events: max(end, p.Seq) - p.Seq - c.journal.log.Skipped(p.Seq+1, end)}
	switch {
	case p.Snapshot:
		lag.Events, oldest = max(1, c.journal.log.Writer.Stats().Events), c.opened
	case lag.Events == 0:
		return Lag{}
	case oldest.IsZero():
		oldest = c.journal.log.Tail.Appended(p.Seq + 1)
	}
	if !oldest.IsZero() {
		lag.Seconds = max(0, time.Since(oldest).Seconds())
	}
	return lag
}

// Close closes the cursor. The journal keeps its position; a temporary one keeps no events for it. A
// Read in progress ends.
func (c *Cursor) Close() error {
	j := c.journal
	j.mu.Lock()
	select {
	case <-c.closed:
		j.mu.Unlock()
		return ErrClosed
	default:
		close(c.closed)
	}
	j.mu.Unlock()
	j.log.Monitor.Mute(c.news)
	c.mu.Lock()
	c.position.Left = time.Now().UTC().Truncate(time.Microsecond)
	c.mu.Unlock()
	err := c.save()
	if err != nil {
		j.config.Logger.Warn("cursor not saved; the sink gets recent events again", "sink", c.name, "err", err)
	}
	c.reading <- struct{}{}
	c.forget()
	<-c.reading
	c.mu.Lock()
	p := c.position
	c.mu.Unlock()
	j.mu.Lock()
	defer j.mu.Unlock()
	delete(j.cursors, c.name)
	j.absent[c.name] = p
	return nil
}

// forget gives up what was read ahead, and the sources.
func (c *Cursor) forget() {
	if c.files != nil {
		c.files.Close()
	}
	c.states.close()
	c.queue, c.files, c.states = nil, nil, nil
}

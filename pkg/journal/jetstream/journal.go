package jetstream

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"sync/atomic"
	"time"

	js "github.com/nats-io/nats.go/jetstream"

	"github.com/informd/informd/pkg/event"
	"github.com/informd/informd/pkg/journal"
	"github.com/informd/informd/pkg/journal/jetstream/internal/conflict"
	"github.com/informd/informd/pkg/journal/jetstream/internal/deadletter"
	"github.com/informd/informd/pkg/journal/jetstream/internal/eventlog"
	"github.com/informd/informd/pkg/journal/jetstream/internal/lastindex"
	"github.com/informd/informd/pkg/journal/jetstream/internal/message"
	"github.com/informd/informd/pkg/journal/jetstream/internal/publish"
	"github.com/informd/informd/pkg/journal/jetstream/internal/record"
	"github.com/informd/informd/pkg/journal/jetstream/internal/retention"
	"github.com/informd/informd/pkg/journal/jetstream/internal/scan"
	"github.com/informd/informd/pkg/journal/jetstream/internal/server"
	"github.com/informd/informd/pkg/journal/jetstream/internal/streams"
	"github.com/informd/informd/pkg/journal/jetstream/internal/tail"
)

// Letters is the dead-letter queue of one sink.
type Letters = deadletter.Queue

var (
	// ErrFenced says that another process writes to the same journal: the journal has a newer
	// event of an object than the appended one. The caller must stop writing; a restart reads
	// the journal's state.
	ErrFenced = conflict.ErrFenced
	// ErrLost says that the log lacks acknowledged events: its files were damaged, or replaced
	// by an older copy. A restart reads the journal's state and reconciles the rest.
	ErrLost = conflict.ErrLost
	// ErrMissing is the [ErrLost] of a stream that was deleted.
	ErrMissing = conflict.ErrMissing
)

// RefusedError says why an existing stream cannot be the journal, with one sentence for each
// setting. informd does not change the stream.
type RefusedError = streams.RefusedError

// Journal is a [journal.Journal] in JetStream. Make one with [Open].
type Journal struct {
	log       *eventlog.Log
	config    Config
	publisher *publish.Publisher
	client    js.JetStream
	state     *scan.Stream // of marks and positions
	created   time.Time    // when stream was
	// stateCreated is the creation time of state.
	stateCreated time.Time
	// replaced: the stream of events is new and takes the place of a deleted one.
	replaced bool
	opened   time.Time // when the end of stream was found
	found    uint64    // at this sequence
	// lostUpTo has [record.Target.LostUpTo] of the targets, by key, as of the opening.
	lostUpTo map[string]uint64
	letters  *deadletter.Queues
	runs     event.Runs // of snapshots of sinks, and of rewinds

	records *record.Records
	janitor *retention.Janitor
	space   *retention.Space
	// standstill is for how long a cursor that is waited for may commit nothing.
	standstill time.Duration
	// closeTimeout bounds Close.
	closeTimeout time.Duration

	recording, asking *server.Outage
	resizer           streams.Resizer

	overtaken  atomic.Uint64
	awaits     atomic.Int32 // calls of Await that look at the positions saved
	suspicious atomic.Bool  // the stream ended too early when last looked at

	running sync.WaitGroup

	mu      sync.Mutex
	cursors map[string]*cursor
	absent  map[string]record.Sink // of sinks that are not open, by key
	pending map[string]requests    // what the records of open sinks have, by key
	// missing is since when the server says that a stream does not exist.
	missing time.Time
	dirty   chan struct{} // one signal: a cursor's position is to be saved
	check   chan struct{} // one signal: the streams may be missing
}

// Open opens the journal: it creates the streams that are missing and refuses those
// that cannot be the journal ([RefusedError]). It resets the records that count on lost
// events. It retries until ctx ends, except after errors that a retry cannot resolve.
func Open(ctx context.Context, c Config) (*Journal, error) {
	if err := c.check(); err != nil {
		return nil, fmt.Errorf("open journal: %w", err)
	}
	if c.ScanInterval <= 0 {
		c.ScanInterval = defaultScanInterval
	}
	j := &Journal{
		config: c,
		log:    &eventlog.Log{Logger: c.Logger, Requests: server.New(), Subjects: lastindex.New()}, standstill: standstill, closeTimeout: closeTimeout,
		cursors: map[string]*cursor{}, absent: map[string]record.Sink{}, lostUpTo: map[string]uint64{}, pending: map[string]requests{}, dirty: make(chan struct{}, 1),
		check: make(chan struct{}, 1),
	}
	named := func(call string) *server.Outage { return server.NewOutage(c.Logger, call, c.Report) }
	j.recording, j.asking = named("commit"), named("open")
	j.log.Lifetime = eventlog.NewLifetime(ctx, c.Logger, c.Stream, j.config.allowed, j.wakeAll)
	j.space = retention.NewSpace()
	j.janitor = retention.New(j.log, j.sweeping())
	j.publisher = publish.New(j.log, named("append"), publish.Options{
		Ended: j.janitor.Note, Short: j.space.SignalShort, Missing: func() { signal(j.check) }, Unread: j.unread,
		Root: c.root(), Conn: c.Conn, StreamName: c.Stream, Unstorable: c.Unstorable, AfterLoss: c.Replaces != nil,
	})
	client, err := js.New(c.Conn, js.WithDefaultTimeout(server.Timeout))
	if err != nil {
		return nil, fmt.Errorf("open journal: %w", err)
	}
	j.client, j.resizer = client, streams.Resizer{Client: client, Room: c.Room, Outage: named("resize"), Logger: c.Logger}
	writer := ""
	if c.Replaces != nil {
		writer = c.Replaces.records.Writer
	}
	j.records = record.New(client, writer, c.Own, j.config.allowed)
	bodies := message.NewObjects(client, js.ObjectStoreConfig{
		Bucket: c.objectBucket(), Description: "informd's journal: objects that no message can carry",
		Replicas: max(c.Replicas, 1),
	})
	j.log.Messages = message.NewCodec(c.SubjectPrefix, c.Conn, bodies, c.Logger)
	j.letters = deadletter.New(client, deadletter.Options{
		Stream: c.Stream, Replicas: c.Replicas, Limits: deadletter.LimitsWithin(c.MaxBytes, c.OtherBytes),
		Usable: j.log.Usable, Fits: j.log.Messages.Fits, Logger: c.Logger,
	})
	err = server.RetryUnbounded(ctx, j.asking, j.locate) // it takes longer, the more records there are
	if err == nil {
		err = j.publisher.Flights.Listen()
	}
	if err != nil {
		j.log.End(journal.ErrClosed)
		return nil, fmt.Errorf("open journal: %w", err)
	}
	j.running.Go(func() { j.publisher.Flights.Watch(j.log.Life) })
	j.running.Go(func() { j.record(j.log.Life) })
	j.running.Go(func() { j.keep(j.log.Life) })
	j.running.Go(func() { j.janitor.Run(j.log.Life) })
	return j, nil
}

// locate finds the streams and where the log ends.
func (j *Journal) locate(ctx context.Context) error {
	var err error
	wanted := j.config.eventStream()
	wanted.Metadata = map[string]string{metaCreator: j.records.Writer}
	if j.config.Existed {
		wanted.Metadata[metaReplaces] = "true"
	}
	if j.config.Own {
		if wanted, err = streams.SetLimits(ctx, j.client, wanted, j.log.Logger); err != nil {
			return err
		}
	}
	// The state comes first: it says what was lost before the stream of events is there again.
	state, err := streams.Find(ctx, j.client, j.config.stateConfig())
	if err != nil {
		return err
	}
	j.state = j.reading(state)
	j.records.State = j.state
	j.stateCreated = j.state.CachedInfo().Created
	if err := j.inheritTargets(ctx); err != nil {
		return err
	}
	stream, err := streams.Find(ctx, j.client, wanted)
	if err != nil {
		return err
	}
	j.log.Stream = j.reading(stream)
	j.log.Messages.Stream = j.log.Stream
	j.replaced = j.replaces(j.log.Stream.CachedInfo())
	j.log.Subjects.Limit = int(min(wanted.MaxMsgsPerSubject, math.MaxInt32))
	if j.config.Own {
		if err := j.locateRest(ctx); err != nil {
			return err
		}
	}
	if limit := j.log.Messages.Limit(); limit < streams.MinMessage {
		return server.Final(fmt.Errorf("the NATS server accepts messages of at most %d bytes, and informd needs %d: raise max_payload in the server's configuration", limit, streams.MinMessage))
	}
	info, err := j.log.Stream.Info(ctx)
	if err != nil {
		return fmt.Errorf("stream %s: %w", j.config.Stream, err)
	}
	j.created = info.Created
	j.log.Tail = tail.New(tailBytes, info.State.LastSeq)
	j.opened, j.found = time.Now(), info.State.LastSeq
	j.space.Set(info)
	if err := j.inheritPositions(ctx); err != nil {
		return err
	}
	if err := j.inheritRequests(ctx); err != nil {
		return err
	}
	return j.distrust(ctx)
}

// reading returns a stream to read.
func (j *Journal) reading(stream js.Stream) *scan.Stream {
	return scan.NewStream(stream, j.config.Conn, j.log.Requests, j.config.Own, j.settled)
}

// settled is when a copy of the streams that is not there yet with what was acknowledged
// by now counts as gone.
func (j *Journal) settled() time.Time {
	if j.log.Tail.End() == j.found { // nothing was appended since
		return j.opened.Add(scan.FollowerDelay)
	}
	return time.Now().Add(scan.FollowerDelay)
}

// locateRest makes what a server of the user's gets when it is needed first. In our
// own it is always there, so that one whose metadata was damaged comes back with
// what it holds.
func (j *Journal) locateRest(ctx context.Context) error {
	if err := j.letters.Create(ctx); err != nil {
		return err
	}
	_, err := j.log.Messages.Objects.Bucket(ctx, true)
	return err
}

// Letters returns the dead-letter queue of that name, in the stream <Stream>_DEADLETTERS.
func (j *Journal) Letters(name string) *Letters { return j.letters.Of(name) }

// LetterCounts returns the number of dead letters in each queue that is not empty, by the
// name of the queue. It includes queues that no sink of the config has any more.
func (j *Journal) LetterCounts(ctx context.Context) (map[string]uint64, error) {
	return j.letters.Counts(ctx)
}

// Stats implements [journal.Journal]. The content of the stream is a few seconds old.
func (j *Journal) Stats() journal.Stats {
	holds := j.space.Now()
	return journal.Stats{
		Events: holds.Events, Bytes: holds.Bytes, Capacity: holds.Capacity,
		LastSeq: j.log.Tail.End(), Blocked: int(j.publisher.Blocked.Load()),
		Lost: j.log.Lost.Load(), Oversize: j.log.Messages.Oversize.Load(), Foreign: j.log.Messages.Foreign.Load(),
		Overtaken: j.overtaken.Load(), Unstorable: j.publisher.Refused.Load(),
		Dropped: j.space.DroppedEvents(),
	}
}

// Close implements [journal.Journal]. It saves the positions of the cursors if the
// server answers, and returns within about two seconds in any case. The connection
// stays open.
func (j *Journal) Close() error {
	j.mu.Lock()
	if j.log.Life.Err() != nil {
		j.mu.Unlock()
		return journal.ErrClosed
	}
	j.log.End(journal.ErrClosed)
	j.mu.Unlock()
	ended := make(chan struct{})
	go func() {
		j.running.Wait()
		j.publisher.Flights.Close()
		close(ended)
	}()
	timer := time.NewTimer(j.closeTimeout)
	defer timer.Stop()
	select {
	case <-ended:
		return nil
	case <-timer.C:
		return errors.New("close journal: the NATS connection blocks until it is closed")
	}
}

// Failed implements [journal.Log].
func (j *Journal) Failed() <-chan struct{} { return j.log.Failed.Done() }

// Failure implements [journal.Log]. It is [ErrFenced], [ErrLost] or [nats.ErrConnectionClosed].
func (j *Journal) Failure() error { return context.Cause(j.log.Failed) }

// wakeAll wakes the reads of all cursors.
func (j *Journal) wakeAll() {
	for _, c := range j.openCursors() {
		signal(c.news)
	}
}

// signal leaves a signal in a channel of capacity 1, unless one is there.
func signal(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// Append implements [journal.Journal]. It tries for as long as it takes: the only
// errors are those of ctx and of the fence, [journal.ErrClosed], and those of
// [Journal.Failure]. If it fails, some of the events may be in the log: see [Journal.AppendRest].
func (j *Journal) Append(ctx context.Context, events []event.Event) error {
	_, err := j.AppendRest(ctx, events)
	if errors.Is(err, ErrFenced) {
		j.log.Fail(err)
	}
	return err
}

// AppendRest is Append, except that [ErrFenced] does not close [Journal.Failed]. If it fails,
// rest has the events that are not known to be in the log. Appending the rest again repeats no
// event; appending all events would repeat those that are not the last of their objects.
func (j *Journal) AppendRest(ctx context.Context, events []event.Event) (rest []event.Event, err error) {
	return j.publisher.Append(ctx, events)
}

// Last implements [journal.Journal].
func (j *Journal) Last(ctx context.Context, of *event.Event) (last event.Event, found bool, err error) {
	if err := j.log.Usable(ctx); err != nil {
		return event.Event{}, false, err
	}
	if last, found = j.log.Newest(of); found {
		return last, true, nil
	}
	bounded, cancel := j.log.Within(ctx)
	defer cancel()
	err = j.log.Requests.Repeat(bounded, j.asking, func(ctx context.Context) error {
		m, err := j.log.Stream.LastMessage(ctx, j.log.Messages.Subject(of))
		if err != nil || m.Seq == 0 {
			return err
		}
		last, found, err = j.log.Messages.Decode(ctx, m)
		return err
	})
	return last, found, j.log.Cause(ctx, err)
}

var _ journal.Journal = (*Journal)(nil)

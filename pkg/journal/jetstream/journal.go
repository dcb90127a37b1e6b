package jetstream

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math"
	"sync"
	"sync/atomic"
	"time"

	js "github.com/nats-io/nats.go/jetstream"

	"github.com/informd/informd/pkg/event"
	"github.com/informd/informd/pkg/journal"
	"github.com/informd/informd/pkg/journal/jetstream/internal/conflict"
	"github.com/informd/informd/pkg/journal/jetstream/internal/deadletter"
	"github.com/informd/informd/pkg/journal/jetstream/internal/lastindex"
	"github.com/informd/informd/pkg/journal/jetstream/internal/message"
	"github.com/informd/informd/pkg/journal/jetstream/internal/record"
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
	config  Config
	logger  *slog.Logger
	client  js.JetStream
	stream  *scan.Stream // of events
	state   *scan.Stream // of marks and positions
	created time.Time    // when stream was
	// stateCreated is the creation time of state.
	stateCreated time.Time
	// replaced: the stream of events is new and takes the place of a deleted one.
	replaced bool
	opened   time.Time // when the end of stream was found
	found    uint64    // at this sequence
	messages *message.Codec
	letters  *deadletter.Queues
	runs     event.Runs // of snapshots of sinks, and of rewinds

	tail     *tail.Tail
	subjects *lastindex.Index
	records  *record.Records
	flights  *flights
	spare    sync.Pool     // of *flight
	turn     chan struct{} // held by the Append call that is sending
	janitor  *janitor
	requests *server.Requests
	// standstill is for how long a cursor that is waited for may commit nothing.
	standstill time.Duration
	// unknownFor is [unknownFor], shorter in tests.
	unknownFor time.Duration

	appending, recording, asking, resizing *server.Outage

	blocked               atomic.Int64
	lost                  atomic.Uint64
	overtaken, unstorable atomic.Uint64
	suspicious            atomic.Bool // the stream ended too early when last looked at

	life    context.Context //nolint:containedctx // ends with Close; bounds what outlives a call
	end     context.CancelCauseFunc
	running sync.WaitGroup

	mu      sync.Mutex
	cursors map[string]*cursor
	absent  map[string]position // of sinks that are not open, by key
	pending map[string]requests // what the records of open sinks have, by key
	failure error               // the log is not the one it was; nil while it is
	// missing is since when the server says that a stream does not exist.
	missing time.Time
	holds   holding
	// dropped counts the events that share has removed unread, by namespace.
	dropped map[string]uint64
	dirty   chan struct{} // one signal: a cursor's position is to be saved
	check   chan struct{} // one signal: the streams may be missing
	// failed ends with failure, or when another process has a newer event of an object.
	failed context.Context //nolint:containedctx // has the failure as its cause
	fail   context.CancelCauseFunc
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
		config: c, logger: c.Logger, turn: make(chan struct{}, 1), standstill: standstill, unknownFor: unknownFor, requests: server.New(), subjects: lastindex.New(),
		cursors: map[string]*cursor{}, absent: map[string]position{}, pending: map[string]requests{}, dirty: make(chan struct{}, 1),
		check: make(chan struct{}, 1),
	}
	named := func(call string) *server.Outage { return server.NewOutage(c.Logger, call, c.Report) }
	j.appending, j.recording, j.asking, j.resizing = named("append"), named("commit"), named("open"), named("resize")
	j.life, j.end = context.WithCancelCause(context.WithoutCancel(ctx))
	j.failed, j.fail = context.WithCancelCause(context.WithoutCancel(ctx))
	j.janitor = newJanitor(j)
	j.flights = newFlights(c.Conn, c.Stream, j.landed)
	client, err := js.New(c.Conn, js.WithDefaultTimeout(server.Timeout))
	if err != nil {
		return nil, fmt.Errorf("open journal: %w", err)
	}
	j.client = client
	writer := ""
	if c.Replaces != nil {
		writer = c.Replaces.records.Writer
	}
	j.records = record.New(client, writer, c.Own, j.config.allowed)
	bodies := message.NewObjects(client, js.ObjectStoreConfig{
		Bucket: c.objectBucket(), Description: "informd's journal: objects that no message can carry",
		Replicas: max(c.Replicas, 1),
	})
	j.messages = message.NewCodec(c.SubjectPrefix, c.Conn, bodies, c.Logger)
	j.letters = deadletter.New(client, c.letterConfig(), j.usable, j.messages.Fits)
	err = server.Retry(ctx, j.asking, j.locate)
	if err == nil {
		err = j.flights.listen()
	}
	if err != nil {
		j.end(journal.ErrClosed)
		return nil, fmt.Errorf("open journal: %w", err)
	}
	j.running.Go(func() { j.flights.watch(j.life) })
	j.running.Go(func() { j.record(j.life) })
	j.running.Go(func() { j.keep(j.life) })
	j.running.Go(func() { j.janitor.run(j.life) })
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
		if wanted, err = streams.SetLimits(ctx, j.client, wanted, j.logger); err != nil {
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
	j.stream = j.reading(stream)
	j.messages.Stream = j.stream
	j.replaced = j.replaces(j.stream.CachedInfo())
	j.subjects.Limit = int(min(wanted.MaxMsgsPerSubject, math.MaxInt32))
	if j.config.Own {
		if err := j.locateRest(ctx); err != nil {
			return err
		}
	}
	if limit := j.messages.Limit(); limit < streams.MinMessage {
		return server.Final(fmt.Errorf("the NATS server accepts messages of at most %d bytes, and informd needs %d: raise max_payload in the server's configuration", limit, streams.MinMessage))
	}
	info, err := j.stream.Info(ctx)
	if err != nil {
		return fmt.Errorf("stream %s: %w", j.config.Stream, err)
	}
	j.created = info.Created
	j.tail = tail.New(tailBytes, info.State.LastSeq)
	j.opened, j.found = time.Now(), info.State.LastSeq
	j.holds = holdingOf(info)
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
	return scan.NewStream(stream, j.config.Conn, j.requests, j.config.Own, j.settled)
}

// settled is when a copy of the streams that is not there yet with what was acknowledged
// by now counts as gone.
func (j *Journal) settled() time.Time {
	if j.tail.End() == j.found { // nothing was appended since
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
	_, err := j.messages.Objects.Bucket(ctx, true)
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
	j.mu.Lock()
	defer j.mu.Unlock()
	return journal.Stats{
		Events: j.holds.events, Bytes: j.holds.bytes, Capacity: j.holds.capacity,
		LastSeq: j.tail.End(), Blocked: int(j.blocked.Load()),
		Lost: j.lost.Load(), Oversize: j.messages.Oversize.Load(), Foreign: j.messages.Foreign.Load(),
		Overtaken: j.overtaken.Load(), Unstorable: j.unstorable.Load(),
		Dropped: maps.Clone(j.dropped),
	}
}

// Close implements [journal.Journal]. It saves the positions of the cursors if the
// server answers, and returns within about two seconds in any case. The connection
// stays open.
func (j *Journal) Close() error {
	j.mu.Lock()
	if j.life.Err() != nil {
		j.mu.Unlock()
		return journal.ErrClosed
	}
	j.end(journal.ErrClosed)
	j.mu.Unlock()
	ended := make(chan struct{})
	go func() {
		j.running.Wait()
		j.flights.close()
		close(ended)
	}()
	timer := time.NewTimer(closePatience + 500*time.Millisecond)
	defer timer.Stop()
	select {
	case <-ended:
		return nil
	case <-timer.C:
		return errors.New("close journal: the NATS connection blocks until it is closed")
	}
}

// usable returns why a call cannot even begin.
func (j *Journal) usable(ctx context.Context) error {
	if j.life.Err() != nil {
		return journal.ErrClosed
	}
	return ctx.Err()
}

// allowed returns why nothing may be appended or read now.
func (j *Journal) allowed() error {
	if err := j.config.allowed(); err != nil {
		return err
	}
	return j.loss()
}

// lose makes all later calls fail: what the server says does not fit what it said.
func (j *Journal) lose(err error) {
	j.stop(err, 1)
}

// stop makes all later calls fail, and the reads under way. It adds lost to
// [journal.Stats.Lost] before it closes [Journal.Failed], whose readers take the counts.
func (j *Journal) stop(err error, lost uint64) {
	j.mu.Lock()
	if j.failure != nil {
		j.mu.Unlock()
		return
	}
	j.failure = err
	j.lost.Add(lost)
	j.fail(err)
	j.mu.Unlock()
	if errors.Is(err, ErrFenced) {
		j.logger.Warn("another informd wrote to the journal; informd stops", slog.String("stream", j.config.Stream), slog.Any("err", err))
	} else {
		j.logger.Warn("journal stream changed; reopening the journal", slog.String("stream", j.config.Stream), slog.Any("err", err))
	}
	for _, c := range j.openCursors() {
		signal(c.news)
	}
}

// Failed implements [journal.Log].
func (j *Journal) Failed() <-chan struct{} { return j.failed.Done() }

// Failure implements [journal.Log]. It is [ErrFenced] or [ErrLost].
func (j *Journal) Failure() error { return context.Cause(j.failed) }

func (j *Journal) loss() error {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.failure
}

// within returns a context that also ends with the journal.
func (j *Journal) within(ctx context.Context) (context.Context, context.CancelFunc) {
	return both(ctx, j.life)
}

// both returns a context that ends with either.
func both(ctx, other context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(other, func() { cancel(context.Cause(other)) })
	return ctx, func() {
		stop()
		cancel(nil)
	}
}

// cause says why a call failed: ctx is the caller's.
func (j *Journal) cause(ctx context.Context, err error) error {
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return ctx.Err()
	case j.life.Err() != nil:
		return journal.ErrClosed
	}
	return err
}

// signal leaves a signal in a channel of capacity 1, unless one is there.
func signal(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

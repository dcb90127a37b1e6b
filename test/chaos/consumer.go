package chaos

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"sync"
	"time"
	"unique"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

const (
	pollInterval  = 50 * time.Millisecond
	answerTimeout = 2 * time.Second
)

// consumer is what all consumers share: the place where deliveries gather.
type consumer struct {
	name    string
	unique  bool // see Sink
	tracker *Tracker
	running sync.WaitGroup
	cancel  context.CancelFunc

	mu         sync.Mutex
	deliveries []Delivery
	refused    map[string]bool
	err        error // what could not be understood
	closed     bool  // what comes now comes too late to be held against etcd
}

func newConsumer(name string, targets map[string]bool) *consumer {
	return &consumer{name: name, tracker: NewTracker(targets), refused: make(map[string]bool)}
}

// start runs a loop until close.
func (c *consumer) start(loop func(ctx context.Context)) {
	ctx, cancel := context.WithCancel(context.Background())
	c.cancel = cancel
	c.running.Go(func() { loop(ctx) })
}

func (c *consumer) close() {
	c.mu.Lock()
	c.closed = true
	c.mu.Unlock()
	if c.cancel != nil {
		c.cancel()
	}
	c.running.Wait()
}

// add takes a delivery, or the error of decoding it.
func (c *consumer) add(d Delivery, raw []byte, err error) {
	d.Canary = holdsCanary(raw)
	d.At = time.Now()
	for _, s := range []*string{&d.Op, &d.Target, &d.Namespace, &d.Name, &d.UID, &d.Reason, &d.Recovered} {
		*s = unique.Make(*s).Value() // there are millions of them
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return
	}
	if err != nil {
		c.err = errors.Join(c.err, fmt.Errorf("sink %s: %w", c.name, err))
		return
	}
	c.deliveries = append(c.deliveries, d)
	c.tracker.Receive(&d)
}

// refuse notes that the destination will never take an event.
func (c *consumer) refuse(d Delivery) {
	c.mu.Lock()
	defer c.mu.Unlock()
	what, _, _ := splitID(d.ID)
	c.refused[d.ID], c.refused[what] = true, true
	c.tracker.Receive(&d)
}

func (c *consumer) count() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.deliveries)
}

// sink returns what was received so far.
func (c *consumer) sink(targets map[string]bool) (*Sink, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return &Sink{
		Name: c.name, Deliveries: slices.Clone(c.deliveries), Refused: c.refused, Targets: targets, Unique: c.unique,
	}, c.err
}

// followFile reads the file sink's lines as they come. What the sink takes back
// after a failed write, it forgets.
func (c *consumer) followFile(ctx context.Context, path string) {
	ticker := time.NewTicker(pollInterval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			if err := c.readFile(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
				c.add(Delivery{}, nil, err)
			}
		}
	}
}

func (c *consumer) readFile(path string) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }()
	info, err := file.Stat()
	if err != nil {
		return err
	}
	offset := c.offset(info.Size())
	lines := bufio.NewReaderSize(io.NewSectionReader(file, offset, info.Size()-offset), 1<<20)
	for {
		line, err := lines.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return nil // what is left is being written
		}
		if err != nil {
			return err
		}
		offset += int64(len(line))
		d, err := decodeCloudEvent(bytes.TrimSuffix(line, []byte("\n")))
		d.End = offset
		c.add(d, line, err)
	}
}

// offset returns where to go on reading, after having forgotten what is beyond
// the end of the file.
func (c *consumer) offset(size int64) int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	for n := len(c.deliveries); n > 0; n-- {
		if end := c.deliveries[n-1].End; end <= size {
			c.deliveries = c.deliveries[:n]
			return end
		}
	}
	c.deliveries = c.deliveries[:0]
	return 0
}

// messageDecoder reads a message of a stream.
type messageDecoder func(nats.Header, []byte) (Delivery, error)

// followStream reads a JetStream stream from its beginning, across all outages of
// the server.
func (c *consumer) followStream(ctx context.Context, url, stream string, decode messageDecoder) {
	var at position
	for ctx.Err() == nil {
		// Errors are outages: they end when the server is back.
		_ = c.readStream(ctx, url, stream, &at, decode)
		select {
		case <-ctx.Done():
		case <-time.After(pollInterval):
		}
	}
}

// position is up to where a stream was read.
type position struct {
	created time.Time // of the stream
	last    uint64
}

// of continues in a stream. If it is another stream of the same name, reading
// begins again at its first message.
func (p *position) of(created time.Time) (lost bool) {
	if p.created.Equal(created) {
		return false
	}
	lost = !p.created.IsZero()
	*p = position{created: created}
	return lost
}

// readStream reads message by message: that is fast enough, and a request that
// is not answered ends in time. A stream may be deleted as a whole; otherwise no
// message is removed from it.
func (c *consumer) readStream(ctx context.Context, url, stream string, at *position, decode messageDecoder) error {
	conn, err := nats.Connect(url, nats.NoReconnect(), nats.Timeout(time.Second))
	if err != nil {
		return err
	}
	defer conn.Close()
	js, err := jetstream.New(conn, jetstream.WithDefaultTimeout(answerTimeout))
	if err != nil {
		return err
	}
	source, err := js.Stream(ctx, stream)
	if err != nil {
		return err
	}
	if at.of(source.CachedInfo().Created) {
		c.add(Delivery{ID: fmt.Sprintf("%s created at %s", stream, at.created), Op: opLost}, nil, nil)
	}
	for {
		m, err := source.GetMsg(ctx, at.last+1)
		if err != nil {
			return err // that there is none yet, too
		}
		at.last = m.Sequence
		d, err := decode(m.Header, m.Data)
		c.add(d, m.Data, err)
	}
}

// targetsSynced returns how many targets have told that their snapshot is complete.
func (c *consumer) targetsSynced() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	targets := make(map[string]bool)
	for i := range c.deliveries {
		if c.deliveries[i].Op == opSynced {
			targets[c.deliveries[i].Target] = true
		}
	}
	return len(targets)
}

// since returns what came after the first n.
func (c *consumer) since(n int) []Delivery {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.deliveries[n:])
}

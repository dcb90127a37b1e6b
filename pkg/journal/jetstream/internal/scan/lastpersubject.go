package scan

import (
	"context"
	"fmt"
	"hash/maphash"
	"slices"
	"time"

	js "github.com/nats-io/nats.go/jetstream"

	"github.com/informd/informd/pkg/journal/jetstream/internal/server"
)

// maxEmpty bounds the pulls in a row that bring nothing. Each gets over one message that
// was removed, or over none if nothing is pending.
const maxEmpty = 1000

// LastPerSubject reads the last message of every subject that the filters match, in the order
// of the stream. It belongs to one goroutine.
//
// The server (2.15) makes a list of them for the consumer, and continues with later messages.
// It does not say where the list ends. A pull ends early if the next message of the list was
// removed, or if the server counts nothing as pending. Removed messages lower that count, even
// those that were not in the list. So LastPerSubject reads the list as far as it seems to
// continue, and asks the stream for further messages up to End. If there are some, it reads
// them in full.
type LastPerSubject struct {
	Stream  *Stream
	Filters []string
	// Headers leaves out the bodies; Batch bounds the messages of a pull.
	Headers bool
	Batch   int
	// End is the sequence of the last message to read; 0 is the end of the stream when the
	// list seems to end.
	End uint64

	ready  time.Time // when all replicas of the stream have the messages to read
	list   *Puller
	total  uint64 // how many the list seems to have
	empty  uint64 // pulls in a row that have brought nothing
	passed uint64 // all messages up to here were returned or are removed
	rest   *rest  // nil while the list is read
}

// Next returns some more messages, possibly none, and whether they are the last ones. After an
// error, call Close; the next call then starts again.
func (l *LastPerSubject) Next(ctx context.Context) (found []Message, through bool, err error) {
	if l.rest != nil {
		return l.rest.next(ctx)
	}
	if l.list == nil {
		if err := l.begin(ctx); err != nil {
			return nil, false, err
		}
	}
	if l.total > 0 {
		if found, err = l.list.Next(ctx); err != nil {
			return nil, false, err
		}
		l.passed = l.list.Last
	}
	if l.list.Over {
		return found, true, nil
	}
	if l.empty++; len(found) > 0 {
		l.empty = 0
	}
	if left := l.total - min(l.total, l.list.received); l.empty >= min(left, maxEmpty) {
		through, err = l.further(ctx)
	}
	return found, through, err
}

// begin makes the consumer, and with it the list.
func (l *LastPerSubject) begin(ctx context.Context) (err error) {
	several := l.Stream.Replicated()
	if several {
		if err := l.settle(ctx); err != nil {
			return err
		}
	}
	l.passed, l.empty = 0, 0
	l.list, err = l.Stream.Pull(ctx, Scan{
		Policy: js.DeliverLastPerSubjectPolicy, To: l.End,
		Filters: l.Filters, Headers: l.Headers, Batch: l.Batch,
	})
	if err != nil {
		return err
	}
	l.total = l.list.Pending
	if several {
		return l.upToDate(ctx)
	}
	return nil
}

// settle waits until every replica that keeps up has the messages to read.
func (l *LastPerSubject) settle(ctx context.Context) (err error) {
	if l.End == 0 {
		if l.End, err = l.Stream.LastSequence(ctx); err != nil {
			return err
		}
	}
	if l.ready.IsZero() {
		l.ready = l.Stream.settled()
	}
	return server.Sleep(ctx, time.Until(l.ready))
}

// upToDate returns an error if the list is of a replica that is behind: it would contain
// objects that were deleted since.
func (l *LastPerSubject) upToDate(ctx context.Context) error {
	info, err := l.Stream.requests.Info(ctx, l.Stream)
	if err != nil {
		return fmt.Errorf("stream %s: %w", l.Stream.Name(), err)
	}
	host := l.list.consumer.CachedInfo().Cluster
	newer := info.State.LastSeq - min(info.State.LastSeq, l.End)
	if host == nil || hasAllBut(info.Cluster, host.Leader, newer) {
		return nil
	}
	return fmt.Errorf("stream %s: the replica on %s is behind", l.Stream.Name(), host.Leader)
}

// hasAllBut reports whether the replica on a server lacks at most the newest messages, as far
// as the leader knows. A replica without a current state or a known lag is unknown to it.
func hasAllBut(copies *js.ClusterInfo, server string, newest uint64) bool {
	if copies == nil || copies.Leader == server {
		return true
	}
	return slices.ContainsFunc(copies.Replicas, func(r *js.PeerInfo) bool {
		return r.Name == server && (r.Current || r.Lag > 0 && r.Lag <= newest)
	})
}

// further finds out whether the stream has messages beyond the list.
func (l *LastPerSubject) further(ctx context.Context) (through bool, err error) {
	if l.End == 0 {
		if l.End, err = l.Stream.LastSequence(ctx); err != nil {
			return false, err
		}
	}
	limited, cancel := context.WithTimeout(ctx, server.Timeout)
	defer cancel()
	var next uint64
	err = l.Stream.requests.Do(limited, func(ctx context.Context) (err error) {
		next, err = l.Stream.nextSequence(ctx, l.list.scan, l.passed+1)
		return err
	})
	switch {
	case err != nil:
		return false, err
	case next == 0 && l.list.received < l.total:
		err = l.Stream.nothingFrom(limited, l.list.scan, l.passed+1)
		return err == nil, err
	case next == 0, next > l.End:
		return true, nil
	}
	l.Close(ctx)
	l.rest = &rest{lasts: l, seed: maphash.MakeSeed(), newest: make(map[uint64]uint64)}
	return false, nil
}

// Close ends the read. It deletes the consumers, for at most closeTimeout.
func (l *LastPerSubject) Close(ctx context.Context) {
	if l.list != nil {
		l.list.Close(ctx)
	}
	if l.rest != nil {
		l.rest.close(ctx)
	}
	l.list, l.rest = nil, nil
}

// rest reads the last messages of the subjects behind passed, without the server's list. It
// reads all headers first, and then the last message of each subject. It takes some 40 bytes
// for each subject.
type rest struct {
	lasts  *LastPerSubject
	seed   maphash.Seed
	newest map[uint64]uint64 // the last sequence, by the hash of the subject
	known  bool              // all of newest is
	pull   *Puller
}

func (r *rest) next(ctx context.Context) (found []Message, through bool, err error) {
	l := r.lasts
	if r.pull == nil {
		batch := HeaderBatch
		if r.known {
			batch = l.Batch
		}
		r.pull, err = l.Stream.Pull(ctx, Scan{
			Policy: js.DeliverByStartSequencePolicy, From: l.passed + 1, To: l.End,
			Filters: l.Filters, Headers: l.Headers || !r.known, Batch: batch,
		})
		if err != nil {
			return nil, false, err
		}
	}
	if found, err = r.pull.Next(ctx); err != nil {
		return nil, false, err
	}
	if r.known {
		return slices.DeleteFunc(found, func(m Message) bool {
			return r.newest[maphash.String(r.seed, m.Subject)] != m.Seq
		}), r.pull.Over, nil
	}
	for _, m := range found {
		r.newest[maphash.String(r.seed, m.Subject)] = m.Seq
	}
	if r.pull.Over {
		r.close(ctx)
		r.known = true
	}
	return nil, false, nil
}

func (r *rest) close(ctx context.Context) {
	if r.pull != nil {
		r.pull.Close(ctx)
		r.pull = nil
	}
}

package jetstream

import (
	"context"
	"fmt"
	"slices"
	"time"

	js "github.com/nats-io/nats.go/jetstream"
)

// maxEmpty bounds the pulls in a row that bring nothing. Each gets over one message that
// was removed, or over none if nothing is pending.
const maxEmpty = 1000

// lasts reads the last message of every subject that the filters match, in the order
// of the log and up to the sequence end. It belongs to one goroutine.
//
// The server (2.15) makes a list of them when it makes the consumer, and goes on with
// what was stored since. It does not say when the list is through: a pull ends as well
// where the next of the list was removed meanwhile, and where the server's count of what
// is pending is down to nothing. What is removed in ones lowers that count, also what was
// never the last of its subject. So the list is read as far as it seems to go, and the
// stream is asked what else there is up to the end. If there is something, that is read
// in full.
type lasts struct {
	journal *Journal
	filters []string
	headers bool // without bodies
	batch   int
	end     uint64 // 0: where the stream ends when the list seems to be through

	ready  time.Time // when all copies of the stream have what is to be read
	list   *puller
	total  uint64 // how many the list seems to have
	empty  uint64 // pulls in a row that have brought nothing
	passed uint64 // everything up to here was returned, or is not there
	rest   *rest  // nil while the list is read
}

// next returns some more messages, possibly none, and whether they are the last. After
// an error it must be closed; it begins anew then.
func (l *lasts) next(ctx context.Context) (found []message, through bool, err error) {
	if l.rest != nil {
		return l.rest.next(ctx)
	}
	if l.list == nil {
		if err := l.begin(ctx); err != nil {
			return nil, false, err
		}
	}
	if l.total > 0 {
		if found, err = l.list.next(ctx); err != nil {
			return nil, false, err
		}
		l.passed = l.list.last
	}
	if l.list.over {
		return found, true, nil
	}
	if l.empty++; len(found) > 0 {
		l.empty = 0
	}
	if left := l.total - min(l.total, l.list.received); l.empty >= min(left, maxEmpty) {
		through, err = l.look(ctx)
	}
	return found, through, err
}

// begin has the list made.
func (l *lasts) begin(ctx context.Context) (err error) {
	several := replicated(l.journal.stream)
	if several {
		if err := l.settle(ctx); err != nil {
			return err
		}
	}
	l.passed, l.empty = 0, 0
	l.list, err = l.journal.pull(ctx, scan{
		stream: l.journal.stream, policy: js.DeliverLastPerSubjectPolicy, to: l.end,
		filters: l.filters, headers: l.headers, batch: l.batch,
	})
	if err != nil {
		return err
	}
	l.total = l.list.pending
	if several {
		return l.upToDate(ctx)
	}
	return nil
}

// settle waits until every copy that keeps up has what is to be read.
func (l *lasts) settle(ctx context.Context) (err error) {
	if l.end == 0 {
		if l.end, err = l.journal.last(ctx); err != nil {
			return err
		}
	}
	if l.ready.IsZero() {
		l.ready = l.journal.settled()
	}
	return sleep(ctx, time.Until(l.ready))
}

// upToDate complains if the list was made from a copy that is behind: it would have
// objects that ended since.
func (l *lasts) upToDate(ctx context.Context) error {
	info, err := l.journal.info(ctx, l.journal.stream)
	if err != nil {
		return fmt.Errorf("stream %s: %w", l.journal.config.Stream, err)
	}
	host := l.list.consumer.CachedInfo().Cluster
	newer := info.State.LastSeq - min(info.State.LastSeq, l.end)
	if host == nil || hasAllBut(info.Cluster, host.Leader, newer) {
		return nil
	}
	return fmt.Errorf("stream %s: the replica on %s is behind", l.journal.config.Stream, host.Leader)
}

// hasAllBut reports whether the copy on a server has all messages but the newest so many,
// as far as the leader of the copies knows. One that is neither current nor known to lag
// was not heard of.
func hasAllBut(copies *js.ClusterInfo, server string, newest uint64) bool {
	if copies == nil || copies.Leader == server {
		return true
	}
	return slices.ContainsFunc(copies.Replicas, func(r *js.PeerInfo) bool {
		return r.Name == server && (r.Current || r.Lag > 0 && r.Lag <= newest)
	})
}

// look asks the stream whether there is more than the list has brought.
func (l *lasts) look(ctx context.Context) (through bool, err error) {
	if l.end == 0 {
		if l.end, err = l.journal.last(ctx); err != nil {
			return false, err
		}
	}
	limited, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	var next uint64
	err = l.journal.ask(limited, func(ctx context.Context) (err error) {
		next, err = l.journal.nextSequence(ctx, l.list.scan, l.passed+1)
		return err
	})
	switch {
	case err != nil:
		return false, err
	case next == 0 && l.list.received < l.total:
		err = l.journal.nothingFrom(limited, l.list.scan, l.passed+1)
		return err == nil, err
	case next == 0, next > l.end:
		return true, nil
	}
	l.close(ctx)
	l.rest = &rest{lasts: l, newest: make(map[uint64]uint64)}
	return false, nil
}

func (l *lasts) close(ctx context.Context) {
	if l.list != nil {
		l.list.close(ctx)
	}
	if l.rest != nil {
		l.rest.close(ctx)
	}
	l.list, l.rest = nil, nil
}

// rest is lasts for what lies behind passed, without the server's list: it reads all
// headers to know what is the last of each subject, and then those. It takes some 40
// bytes for each subject.
type rest struct {
	lasts  *lasts
	newest map[uint64]uint64 // the last sequence, by the hash of the subject
	known  bool              // all of newest is
	pull   *puller
}

func (r *rest) next(ctx context.Context) (found []message, through bool, err error) {
	l := r.lasts
	if r.pull == nil {
		batch := scanBatch
		if r.known {
			batch = l.batch
		}
		r.pull, err = l.journal.pull(ctx, scan{
			stream: l.journal.stream, policy: js.DeliverByStartSequencePolicy, from: l.passed + 1, to: l.end,
			filters: l.filters, headers: l.headers || !r.known, batch: batch,
		})
		if err != nil {
			return nil, false, err
		}
	}
	if found, err = r.pull.next(ctx); err != nil {
		return nil, false, err
	}
	if r.known {
		return slices.DeleteFunc(found, func(m message) bool {
			return r.newest[l.journal.heads.hash(m.Subject)] != m.seq
		}), r.pull.over, nil
	}
	for _, m := range found {
		r.newest[l.journal.heads.hash(m.Subject)] = m.seq
	}
	if r.pull.over {
		r.close(ctx)
		r.known = true
	}
	return nil, false, nil
}

func (r *rest) close(ctx context.Context) {
	if r.pull != nil {
		r.pull.close(ctx)
		r.pull = nil
	}
}

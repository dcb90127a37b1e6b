package jetstream

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	js "github.com/nats-io/nats.go/jetstream"

	"github.com/informd/informd/pkg/event"
	"github.com/informd/informd/pkg/journal/jetstream/internal/conflict"
	"github.com/informd/informd/pkg/journal/jetstream/internal/scan"
	"github.com/informd/informd/pkg/journal/jetstream/internal/server"
)

// place ties a record to the log it was written about: a log that has another age,
// or ends before, is not the one any more.
type place struct {
	Last    uint64    `json:"last"`    // a sequence that the log had
	Created time.Time `json:"created"` // when the stream was created
}

// holds reports whether the log still has what the record counts on.
func (p place) holds(now place) bool {
	return p.Created.Equal(now.Created) && p.Last <= now.Last
}

// mark is the record of a target.
type mark struct {
	place
	// Lost: an earlier mark counted on events that the log has lost.
	Lost bool   `json:"lost,omitempty"`
	Mark []byte `json:"mark,omitempty"`
}

// position is the record of a sink.
type position struct {
	// place.Last is the committed sequence.
	place
	// Snapshot says that the sink has not yet got all of its snapshot, and Since
	// where the log ended when the first attempt at it began.
	Snapshot bool   `json:"snapshot,omitempty"`
	Since    uint64 `json:"since,omitempty"`
	// Jumped is the first sequence that was gone before the sink came to it, as
	// long as a copy of an end from there on may follow; 0: none was.
	Jumped uint64 `json:"jumped,omitempty"`
	// Returned names deletions from Jumped on that the sink has: it needs no copy of them.
	Returned string `json:"returned,omitempty"`
	// Detached is up to where the sink may lack events that came before: see
	// [journal.Entry].
	Detached uint64 `json:"detached,omitempty"`
	// Run is that of the last rewind; events up to Until belong to it.
	Run   uint64 `json:"run,omitempty"`
	Until uint64 `json:"until,omitempty"`
	// Left is when the sink was last open; zero while it is, and after a crash.
	Left time.Time `json:"left,omitzero"`
	// Note is the reader's own.
	Note string `json:"note,omitempty"`
	// Lost is only set in the mark of a target.
	Lost bool `json:"lost,omitempty"`
}

// swept is the record of the janitor: below every deletion up to Last nothing is
// left to purge.
type swept struct{ place }

// bound is the record of the cluster.
type bound struct {
	UID string `json:"uid"`
}

func (j *Journal) targetKey(target string) string {
	return j.config.stateStream() + ".target." + event.EscapeToken(target)
}

func (j *Journal) sinkKey(name string) string {
	return j.config.stateStream() + ".sink." + event.EscapeToken(name)
}

func (j *Journal) key(name string) string { return j.config.stateStream() + "." + name }

// here is the place that new records are tied to.
func (j *Journal) here() place { return place{Last: j.tail.End(), Created: j.created} }

// Bind remembers the cluster that the journal belongs to, by the UID of its
// namespace kube-system. If it belongs to another one it returns an error and
// changes nothing: its revisions and ours have nothing to do with each other.
func (j *Journal) Bind(ctx context.Context, clusterUID string) error {
	if err := j.usable(ctx); err != nil {
		return err
	}
	bounded, cancel := j.within(ctx)
	defer cancel()
	err := server.Retry(bounded, j.asking, func(ctx context.Context) error {
		var b bound
		found, err := j.records.Load(ctx, j.key("cluster"), &b)
		if err != nil {
			return err
		}
		if !found {
			return j.save(ctx, j.key("cluster"), bound{UID: clusterUID})
		}
		if b.UID != clusterUID {
			return server.Final(fmt.Errorf("the journal (stream %s) belongs to another Kubernetes cluster: its kube-system has the UID %s, this one's %s; "+
				"give each cluster its own journal (journal.dir, or journal.stream and cluster)", j.config.Stream, b.UID, clusterUID))
		}
		return nil
	})
	return j.cause(ctx, err)
}

// distrust looks at all marks and positions before anything is appended, and
// resets those that count on events which the log has lost: later, new events with
// the same sequences would hide that. Where other processes can write, all others
// are claimed. It notes the sinks that there are.
func (j *Journal) distrust(ctx context.Context) error {
	all, err := j.allRecords(ctx)
	if err != nil {
		return err
	}
	for _, m := range all {
		if err := j.reset(ctx, m); err != nil {
			return err
		}
	}
	return nil
}

// allRecords reads the last mark of every target and the last position of every sink.
// Nothing may be written meanwhile: it would come as well, behind the others.
func (j *Journal) allRecords(ctx context.Context) (all []scan.Message, err error) {
	p, err := j.state.Pull(ctx, scan.Scan{
		Policy: js.DeliverAllPolicy, Batch: 256, // a subject has one
		Filters: []string{j.key("target.>"), j.key("sink.>")},
	})
	if err != nil {
		return nil, err
	}
	defer p.Close(ctx)
	for {
		found, err := p.Next(ctx)
		if err != nil {
			return nil, err
		}
		all = append(all, found...)
		if p.Over {
			return all, nil
		}
	}
}

// reset makes a record that cannot be trusted say so. No sink is open yet.
func (j *Journal) reset(ctx context.Context, m scan.Message) error {
	j.records.Found(m)
	var p position // has the place of both kinds
	if err := json.Unmarshal(m.Data, &p); err != nil {
		return server.Final(fmt.Errorf("record %s is damaged: %w", m.Subject, err))
	}
	target := strings.HasPrefix(m.Subject, j.targetKey(""))
	anew := p
	if (!p.holds(j.here()) || j.config.Distrust && target) && !p.Lost {
		j.lost.Add(1)
		j.logger.Error("journal lost acknowledged events; reconciling targets, re-snapshotting sinks",
			slog.String("record", m.Subject), slog.Uint64("expected_seq", p.Last), slog.Uint64("seq", j.tail.End()), slog.String("next", conflict.CheckStorage))
		anew = position{place: place{Created: j.created}, Snapshot: true, Since: j.tail.End(), Run: p.Run, Left: p.Left, Lost: target, Note: p.Note}
	}
	if !target {
		if anew.Left.IsZero() {
			anew.Left = now()
		}
		j.absent[m.Subject] = anew
	}
	if anew == p {
		return j.records.Claim(ctx, m)
	}
	return j.save(ctx, m.Subject, anew)
}

// Mark implements [journal.Journal]. It tries for as long as it takes.
func (j *Journal) Mark(ctx context.Context, target string, note []byte) error {
	if err := j.usable(ctx); err != nil {
		return err
	}
	bounded, cancel := j.within(ctx)
	defer cancel()
	err := j.requests.Repeat(bounded, j.recording, func(ctx context.Context) error {
		return j.save(ctx, j.targetKey(target), mark{place: j.here(), Mark: note})
	})
	return j.cause(ctx, err)
}

// save writes a record in place of the earlier one. If another process has written it since,
// or the stream lost it, the journal fails.
func (j *Journal) save(ctx context.Context, key string, record any) error {
	err := j.records.Save(ctx, key, record)
	switch {
	case errors.Is(err, ErrFenced):
		j.stop(err, 0)
		return server.Final(err)
	case errors.Is(err, ErrLost):
		j.lose(err)
		return server.Final(err)
	}
	return err
}

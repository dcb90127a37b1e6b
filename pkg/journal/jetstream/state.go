package jetstream

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"

	"github.com/informd/informd/pkg/journal/jetstream/internal/conflict"
	"github.com/informd/informd/pkg/journal/jetstream/internal/record"
	"github.com/informd/informd/pkg/journal/jetstream/internal/scan"
	"github.com/informd/informd/pkg/journal/jetstream/internal/server"
)

// here is the place that new records are tied to.
func (j *Journal) here() record.Place {
	return record.Place{Last: j.log.Tail.End(), Created: j.created}
}

// Cluster is the name in the subjects of the journal: see [Config].
func (j *Journal) Cluster() string { return j.config.Cluster }

// Bind remembers the cluster that the journal belongs to, by the UID of its
// namespace kube-system. If it belongs to another one it returns an error and
// changes nothing: its revisions and ours have nothing to do with each other.
func (j *Journal) Bind(ctx context.Context, clusterUID string) error {
	if err := j.log.Usable(ctx); err != nil {
		return err
	}
	bounded, cancel := j.log.Within(ctx)
	defer cancel()
	err := server.Retry(bounded, j.asking, func(ctx context.Context) error {
		var b record.Cluster
		found, err := j.records.Load(ctx, j.records.Key("cluster"), &b)
		if err != nil {
			return err
		}
		if !found {
			return j.save(ctx, j.records.Key("cluster"), record.Cluster{UID: clusterUID})
		}
		if b.UID != clusterUID {
			return server.Final(fmt.Errorf("the journal (stream %s) belongs to another Kubernetes cluster: its kube-system has the UID %s, this one's %s; "+
				"give each cluster its own journal (journal.dir, or journal.stream and cluster)", j.config.Stream, b.UID, clusterUID))
		}
		return nil
	})
	return j.log.Cause(ctx, err)
}

// distrust looks at all marks and positions before anything is appended, and
// resets those that count on events which the log has lost: later, new events with
// the same sequences would hide that. Where other processes can write, all others
// are claimed. It notes the sinks that there are.
func (j *Journal) distrust(ctx context.Context) error {
	all, err := j.records.All(ctx)
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

// reset makes a record that cannot be trusted say so. No sink is open yet.
func (j *Journal) reset(ctx context.Context, m scan.Message) error {
	j.records.Found(m)
	if strings.HasPrefix(m.Subject, j.records.Target("")) {
		return j.resetTarget(ctx, m)
	}
	return j.resetSink(ctx, m)
}

func (j *Journal) resetTarget(ctx context.Context, m scan.Message) error {
	var p record.Target
	if err := record.Decode(m, &p); err != nil {
		return err
	}
	next := p.In(j.here(), j.config.Distrust)
	if next.Lost && !p.Lost {
		j.reportLost(m.Subject, p.Last)
	}
	j.lostUpTo[m.Subject] = next.LostUpTo
	if next.Equal(&p) {
		return j.records.Claim(ctx, m)
	}
	return j.save(ctx, m.Subject, next)
}

func (j *Journal) resetSink(ctx context.Context, m scan.Message) error {
	var p record.Sink
	if err := record.Decode(m, &p); err != nil {
		return err
	}
	next := p.In(j.here())
	if !p.Holds(j.here()) {
		j.reportLost(m.Subject, p.Last)
	}
	j.absent[m.Subject] = next
	if next == p {
		return j.records.Claim(ctx, m)
	}
	return j.save(ctx, m.Subject, next)
}

// reportLost counts and logs that the log has lost what a record counts on.
func (j *Journal) reportLost(key string, expected uint64) {
	j.log.Lost.Add(1)
	j.log.Logger.Error("journal lost acknowledged events; reconciling targets, re-snapshotting sinks",
		slog.String("record", key), slog.Uint64("expected_seq", expected), slog.Uint64("seq", j.log.Tail.End()), slog.String("next", conflict.CheckStorage))
}

// lossy reports whether the log has lost events that a target had up to a sequence.
func (j *Journal) lossy(target string, seq uint64) bool {
	return seq <= j.lostUpTo[j.records.Target(target)]
}

// Mark implements [journal.Journal]. It tries for as long as it takes.
func (j *Journal) Mark(ctx context.Context, target string, note []byte) error {
	if err := j.log.Usable(ctx); err != nil {
		return err
	}
	bounded, cancel := j.log.Within(ctx)
	defer cancel()
	err := j.log.Requests.Repeat(bounded, j.recording, func(ctx context.Context) error {
		key := j.records.Target(target)
		return j.save(ctx, key, record.Target{Place: j.here(), LostUpTo: j.lostUpTo[key], Mark: note})
	})
	return j.log.Cause(ctx, err)
}

// save writes a record in place of the earlier one. If another process has written it since,
// or the stream lost it, the journal fails.
func (j *Journal) save(ctx context.Context, key string, record any) error {
	err := j.records.Save(ctx, key, record)
	switch {
	case errors.Is(err, ErrFenced):
		j.log.Stop(err, 0)
		return server.Final(err)
	case errors.Is(err, ErrLost):
		j.log.Lose(err)
		return server.Final(err)
	}
	return err
}

package dynwatch

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/informd/informd/pkg/dynwatch/internal/target"
)

const (
	// auditAttempts is how often an audit on demand is begun when watches end
	// meanwhile, as they do every few minutes.
	auditAttempts = 3
	// auditPatience is how long it waits for a watch to be open, auditPoll how
	// often it looks.
	auditPatience = 2 * time.Second
	auditPoll     = 20 * time.Millisecond
)

// AuditResult is the outcome of one target's audit.
type AuditResult struct {
	// Target is the name of the target, as in its events.
	Target string
	// Revision is that of the list, Objects how many it held.
	Revision uint64
	Objects  int
	// Divergences counts the objects whose state in the stream differs from the cluster. The
	// target reconciles after an audit that found some.
	Divergences int
	// Err says why there is no outcome.
	Err error
}

// Audit compares what every live target has in the log with what the cluster
// holds, now, and waits for the outcomes, sorted by target. An outcome needs the
// watch to pass the revision of a list, which on a quiet resource may take until
// the next bookmark if something differs, a minute or so; otherwise the time of a
// list of metadata. Targets that are not live have an Err that says what they are.
// The error is the context's, or that the Manager has no targets.
func (m *Manager) Audit(ctx context.Context) ([]AuditResult, error) {
	m.mu.Lock()
	targets := m.sorted()
	m.mu.Unlock()
	if len(targets) == 0 {
		return nil, errors.New("audit: there are no targets")
	}
	results := askAll(targets, func(r *running) AuditResult { return r.audit(ctx) })
	if err := ctx.Err(); err != nil {
		return results, fmt.Errorf("audit: %w", err)
	}
	return results, nil
}

// audit has the target's loop audit, again if the watch ends over it.
func (r *running) audit(ctx context.Context) (result AuditResult) {
	for range auditAttempts {
		reply := make(chan target.AuditResult, 1)
		found, err := ask(ctx, r, r.target.Audits.Requests, chan<- target.AuditResult(reply), reply)
		result = AuditResult{Target: r.target.Name, Revision: found.Revision, Objects: found.Objects, Divergences: found.Divergences, Err: cmp.Or(err, found.Err)}
		if !errors.Is(result.Err, target.ErrAbandoned) {
			return result
		}
	}
	return result
}

// askAll asks the targets at the same time, and returns the answers in their order.
func askAll[T any](targets []*running, one func(*running) T) []T {
	answers := make([]T, len(targets))
	var all sync.WaitGroup
	for i, r := range targets {
		all.Go(func() { answers[i] = one(r) })
	}
	all.Wait()
	return answers
}

// ask hands a request to the target's loop and waits for the answer, which comes before the
// loop ends.
func ask[Q, A any](ctx context.Context, r *running, requests chan<- Q, asked Q, answers <-chan A) (answer A, err error) {
	if err := request(ctx, r, requests, asked); err != nil {
		return answer, err
	}
	select {
	case answer = <-answers:
		return answer, nil
	case <-ctx.Done():
		return answer, ctx.Err()
	}
}

// request waits until the target's loop takes what is asked of it, which it does
// while a watch is open.
func request[T any](ctx context.Context, r *running, requests chan<- T, asked T) error {
	poll := time.NewTicker(auditPoll)
	defer poll.Stop()
	live := time.Now()
	for {
		select {
		case requests <- asked:
			return nil
		case <-r.done:
			return errors.New("the target stopped")
		case <-ctx.Done():
			return ctx.Err()
		case <-poll.C:
		}
		s := statusOf(r.target.Spec, r.target.Status)
		if s.State == Live {
			live = time.Now()
		}
		if time.Since(live) > auditPatience {
			return fmt.Errorf("the target is %s: %s", s.State, s.Reason)
		}
	}
}

package kube

import (
	"context"
	"maps"
	"math/rand/v2"
	"sync"
	"time"

	"golang.org/x/time/rate"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// pace prevents bursts of requests, for example after an API server restart or a loss of
// history. It limits the open comparisons and look-ups of all targets together, and has
// requests wait while a server is overloaded. Its methods may be called concurrently.
type pace struct {
	turns, heads chan struct{}

	mu sync.Mutex
	// closed is the time until which an overloaded server wants no requests for an API group, and
	// all is that for all groups.
	closed map[string]time.Time
	all    time.Time
}

const (
	// PaceWidth is the number of requests at the same time that may read objects.
	PaceWidth = 8
	// HeadWidth is the number of those that read none. An API server answers such a request when it has news of etcd,
	// after up to 100 ms, so a restart with many targets waits for rounds of them. The memory of more at once would stay.
	HeadWidth = 12
	// paceWait is the longest wait for a free place, and the longest time that one is kept: requests
	// that hang must not hold up the targets that could continue.
	paceWait = 2 * time.Second
	// PaceClosed is the longest time for which one refused request holds up other targets.
	PaceClosed = 30 * time.Second
	// PaceLongest is the longest wait for an overloaded server in all. Without it, a series of
	// refusals would hold back some requests for ever, and their targets would count as hung.
	PaceLongest = 45 * time.Second
	// paceJitter spreads the requests that waited for an overloaded server.
	paceJitter = 500 * time.Millisecond
)

func newPace() *pace {
	return &pace{turns: make(chan struct{}, PaceWidth), heads: make(chan struct{}, HeadWidth), closed: make(map[string]time.Time)}
}

// Begin waits for a place for a request about an API group. The caller gives it back with end.
func (p *pace) Begin(ctx context.Context, group string) (end func()) {
	return p.begin(ctx, group, p.turns)
}

// BeginHead is Begin for a request for the newest revision, which reads no object.
func (p *pace) BeginHead(ctx context.Context, group string) (end func()) {
	return p.begin(ctx, group, p.heads)
}

func (p *pace) begin(ctx context.Context, group string, turns chan struct{}) (end func()) {
	p.Open(ctx, group)
	timer := time.NewTimer(paceWait)
	defer timer.Stop()
	select {
	case turns <- struct{}{}:
		return endOfTurn(turns, paceWait)
	case <-timer.C:
	case <-ctx.Done():
	}
	return func() {}
}

// endOfTurn returns the end of a turn that was taken. The turn ends by itself after the longest time.
func endOfTurn(turns <-chan struct{}, longest time.Duration) (end func()) {
	free := sync.OnceFunc(func() { <-turns })
	timer := time.AfterFunc(longest, free)
	return func() {
		timer.Stop()
		free()
	}
}

// Open waits until the server takes requests for a group, at most PaceLongest, or until ctx ends.
func (p *pace) Open(ctx context.Context, group string) {
	var longest <-chan time.Time
	for {
		wait := p.Closed(group)
		if wait <= 0 {
			return
		}
		if longest == nil {
			longest = time.After(PaceLongest)
		}
		timer := time.NewTimer(wait + rand.N(paceJitter)) //nolint:gosec // jitter, not a secret
		select {
		case <-timer.C:
		case <-longest:
			timer.Stop()
			return
		case <-ctx.Done():
			timer.Stop()
			return
		}
	}
}

// Note has requests wait if err says that the server is overloaded, for as long as the server
// asks: those for the group. A group can have a server of its own. If the core group is refused, or
// two groups are at a time, it is the server of all.
func (p *pace) Note(group string, err error) {
	if !Overloaded(err) {
		return
	}
	wait, _ := Throttled(err)
	now := time.Now()
	until := now.Add(min(wait, PaceClosed))
	p.mu.Lock()
	defer p.mu.Unlock()
	maps.DeleteFunc(p.closed, func(_ string, end time.Time) bool { return !end.After(now) })
	if until.After(p.closed[group]) {
		p.closed[group] = until
	}
	if group == "" || len(p.closed) > 1 {
		if until.After(p.all) {
			p.all = until
		}
	}
}

// Closed returns for how long the requests for a group wait, at most 0 if they do not. Those for the core group wait
// as long as those for all.
func (p *pace) Closed(group string) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	return max(time.Until(p.closed[group]), time.Until(p.all))
}

// Overloaded reports whether err comes from a server that has too many requests of all
// kinds: API priority and fairness and the limit of requests in flight answer in plain text.
// A 429 with a Status concerns one resource, whose watch cache is not ready yet.
func Overloaded(err error) bool {
	return err != nil && apierrors.IsTooManyRequests(err) && apierrors.HasStatusCause(err, metav1.CauseTypeUnexpectedServerResponse)
}

// After an API server restart all targets can have lost history at once. Their walks may make
// WalkRequests at once, and as many again within historyPeriod. Etcd keeps its history for five
// minutes by default.
const (
	WalkRequests  = 20_000
	historyPeriod = 5 * time.Minute
)

// newBudget limits requests of all targets together.
func newBudget(most int) *rate.Limiter {
	return rate.NewLimiter(rate.Limit(float64(most)/historyPeriod.Seconds()), most)
}

package dynwatch

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// pace keeps what many targets ask for at once, when an API server comes back or
// history was lost, from being a burst: comparisons and look-ups of all targets
// together have so many requests open at a time, and a server that is overloaded is
// left alone by all of them. Its methods may be called concurrently.
type pace struct {
	turns chan struct{}

	mu sync.Mutex
	// closed is until when an overloaded server wants to be left alone.
	closed time.Time
}

const (
	paceWidth = 8
	// paceWait is how long a request waits for its turn at most: those that hang
	// must not hold up the targets that could go on.
	paceWait = 2 * time.Second
	// paceClosed bounds how long one refused request holds up those of other targets.
	paceClosed = 30 * time.Second
	// paceLongest bounds how long a request waits for an overloaded server in all: where
	// refusals follow each other, some requests would never be made, and their targets
	// would count as hung.
	paceLongest = 45 * time.Second
	// paceJitter spreads the requests that have waited for an overloaded server.
	paceJitter = 500 * time.Millisecond
)

func newPace() *pace { return &pace{turns: make(chan struct{}, paceWidth)} }

// begin waits for a turn. End gives it back.
func (p *pace) begin(ctx context.Context) (end func()) {
	p.open(ctx)
	timer := time.NewTimer(paceWait)
	defer timer.Stop()
	select {
	case p.turns <- struct{}{}:
		return func() { <-p.turns }
	case <-timer.C:
	case <-ctx.Done():
	}
	return func() {}
}

// open waits until the server may be asked, at most paceLongest, or until ctx ends.
func (p *pace) open(ctx context.Context) {
	var longest <-chan time.Time
	for {
		p.mu.Lock()
		wait := time.Until(p.closed)
		p.mu.Unlock()
		if wait <= 0 {
			return
		}
		if longest == nil {
			longest = time.After(paceLongest)
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

// note has all requests wait if err says that the server is overloaded, as long as it asks
// for.
func (p *pace) note(err error) {
	if !overloaded(err) {
		return
	}
	wait, _ := throttled(err)
	until := time.Now().Add(min(wait, paceClosed))
	p.mu.Lock()
	defer p.mu.Unlock()
	if until.After(p.closed) {
		p.closed = until
	}
}

// overloaded reports whether err comes from a server that has too many requests of all
// kinds: priority and fairness and the limit of requests in flight answer in plain text. A
// 429 with a Status concerns one resource, whose watch cache is not ready yet.
func overloaded(err error) bool {
	return err != nil && apierrors.IsTooManyRequests(err) && apierrors.HasStatusCause(err, metav1.CauseTypeUnexpectedServerResponse)
}

// budget bounds how many requests of one kind all targets make together: a number of them
// at once, and as many again within a time. Its methods may be called concurrently.
type budget struct {
	most      float64
	perSecond float64

	mu   sync.Mutex
	left float64
	at   time.Time // when left was right
}

func newBudget(most int, within time.Duration) *budget {
	return &budget{most: float64(most), perSecond: float64(most) / within.Seconds(), left: float64(most), at: time.Now()}
}

// take takes n requests, or none if there are fewer.
func (b *budget) take(n int) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := time.Now()
	b.left = min(b.most, b.left+now.Sub(b.at).Seconds()*b.perSecond)
	b.at = now
	if float64(n) > b.left {
		return false
	}
	b.left -= float64(n)
	return true
}

// giveBack gives back requests that were taken and not made.
func (b *budget) giveBack(n int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.left = min(b.most, b.left+float64(n))
}

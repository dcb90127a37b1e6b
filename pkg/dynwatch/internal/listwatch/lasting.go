package listwatch

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/informd/informd/pkg/dynwatch/internal/frame"
	"github.com/informd/informd/pkg/dynwatch/internal/kube"
)

// An API server can answer one request with errors for ever, and all others well: etcd has an
// object at that revision that cannot be decoded or decrypted, or a proxy refuses what it does not
// know. A target that repeats such a request gets no further. So a request that fails again and
// again counts as one that the server does not support, like exact revisions at some aggregated API
// servers. For those each caller has another way already, which loses no more than it declares.

// ErrLasting says that a request has failed often and for long while the server answered others.
var ErrLasting = errors.New("the request keeps failing, and the API server answers others")

const (
	// lastingAttempts is how often a request must fail until its error counts as lasting.
	lastingAttempts = 3
	// failureKept is for how long a failure counts if the request is not made again.
	failureKept = 5 * time.Minute
	// maxFailing bounds the requests that are remembered; beyond it all are forgotten.
	maxFailing = 1_000
)

// Failures are the requests of a target that fail. They outlive its sources. If nil, no error
// counts as lasting. It may be used concurrently.
type Failures struct {
	// After is for how long a request must have failed until its error counts as lasting.
	After time.Duration

	mu      sync.Mutex // for a moment only
	failing map[string]*failure
}

// Attempt is an attempt of a request. Requests that differ each time, as the newest revision
// does, have one name.
type Attempt struct {
	Request string
	// At is what the attempts differ in: the revision or the page. Success with another one proves
	// nothing.
	At uint64
}

type failure struct {
	at          uint64
	first, last time.Time
	attempts    int
}

// Note takes note of how a request ended, which may be an attempt of several. It returns the error,
// with [ErrLasting] if it lasts. Answers asks whether the server answers at all: an outage says
// nothing about a request.
func (f *Failures) Note(ctx context.Context, err error, answers func(context.Context) error, of ...Attempt) error {
	switch {
	case f == nil, err != nil && !mayLast(err), ctx.Err() != nil:
		return err
	case err == nil:
		f.succeeded(of)
		return nil
	}
	unreachable := answers(ctx) != nil
	f.mu.Lock()
	defer f.mu.Unlock()
	lasts := false
	for _, a := range of {
		if unreachable {
			delete(f.failing, a.Request)
		} else {
			lasts = f.failed(a, time.Now()) || lasts
		}
	}
	if lasts {
		return fmt.Errorf("%w: %w", ErrLasting, err)
	}
	return err
}

// failed counts a failure, and reports whether the request has failed for long enough.
func (f *Failures) failed(a Attempt, now time.Time) bool {
	one := f.failing[a.Request]
	if one == nil || now.Sub(one.last) > failureKept {
		if f.failing == nil || len(f.failing) >= maxFailing {
			f.failing = make(map[string]*failure)
		}
		one = &failure{first: now}
		f.failing[a.Request] = one
	}
	one.at, one.last = a.At, now
	one.attempts++
	return one.attempts >= lastingAttempts && now.Sub(one.first) >= f.After
}

func (f *Failures) succeeded(of []Attempt) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, a := range of {
		if one := f.failing[a.Request]; one != nil && one.at == a.At {
			delete(f.failing, a.Request)
		}
	}
}

// mayLast reports whether an error can concern one request alone, and nothing else deals with it.
func mayLast(err error) bool {
	_, malformed := errors.AsType[*frame.Malformed](err)
	_, busy := kube.Throttled(err)
	return !malformed && !Expired(err) && !Unsupported(err) && !errors.Is(err, kube.ErrOtherCluster) && !errors.Is(err, ErrWrongList) &&
		(!busy || kube.IsInitializing(err))
}

// Note takes note of how a request of the source ended: see [Failures.Note].
func (s *Source) Note(ctx context.Context, err error, of ...Attempt) error {
	return s.Failures.Note(ctx, err, func(ctx context.Context) error {
		_, err := s.Revision(ctx)
		return err
	}, of...)
}

// NoteWatch is Note for a watch from a revision, which the server has refused or ended.
func (s *Source) NoteWatch(ctx context.Context, rv uint64, err error) error {
	return s.Note(ctx, err, Attempt{Request: fmt.Sprintf("watch from %d", rv)})
}

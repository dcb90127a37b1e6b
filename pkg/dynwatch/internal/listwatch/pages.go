package listwatch

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/informd/informd/pkg/dynwatch/internal/frame"
	"github.com/informd/informd/pkg/dynwatch/internal/kube"
)

// PageSize is how many objects one list request asks for. A page is read as
// a stream, so it bounds the server's work, not our memory.
const PageSize = 500

// Every list is read as a stream, item by item. A page that fails is requested again
// with the same continue token, so that one refused request of hundreds does not cost the
// whole list.

const (
	// pageAttempts is how often one page is requested.
	pageAttempts = 8
	// pageBackoff is the pause before the second attempt. It doubles up to pageBackoffCap.
	pageBackoff, pageBackoffCap = 250 * time.Millisecond, 8 * time.Second
	// pageGrowth is by how much larger the pages of the next list are if the continue token
	// of a list expired, up to maxGrowth times: with fewer requests the next list is over
	// in time.
	pageGrowth, maxGrowth = 4, 3
	// pageTime bounds the attempts of one page. Continue tokens expire after five minutes,
	// and a target that does nothing for five minutes counts as hung.
	pageTime = 3 * time.Minute
	// briefTime is that of a [Listing.Brief] list.
	briefTime = 2 * time.Second
)

// errEndless says that a list has no end. Its caller may list again from the beginning.
var errEndless = errors.New("the server repeats a continue token, so that the list has no end")

// ErrEnough ends a list of which enough was read.
var ErrEnough = errors.New("enough")

// page is the options of one list request, rv 0 meaning consistent: what etcd
// holds now. Requests that continue a list carry no revision: the token does
// (the server answers 422 otherwise).
func page(rv uint64, next string) metav1.ListOptions {
	o := metav1.ListOptions{Limit: PageSize, Continue: next}
	if rv != 0 && next == "" {
		o.ResourceVersion = strconv.FormatUint(rv, 10)
		o.ResourceVersionMatch = metav1.ResourceVersionMatchExact
	}
	return o
}

// PagesFor returns how many list requests a list of n objects takes.
func PagesFor(n int) int { return n/PageSize + 1 }

// Listing is a place in a list of several pages: at is the exact revision to
// list, or 0 for what etcd holds now; next is the token of the page to read, and taken
// is how many of its items were handed over; namespace is the one to list, if it is not
// the source's.
type Listing struct {
	At        uint64
	Next      string
	taken     int
	Namespace string
	Memory    *frame.Memory // of the objects, see [frame.Normaliser.ReadList]
	// Brief: a page that fails is requested again within two seconds or not at all, because a watch waits meanwhile.
	Brief bool
}

// most bounds the attempts of a page.
func (l *Listing) most() time.Duration {
	if l.Brief {
		return briefTime
	}
	return pageTime
}

// fixed reports whether the page to read has the same items whenever it is requested.
func (l *Listing) fixed() bool { return l.At != 0 || l.Next != "" }

// takerError is an error of the function that takes a list's items, not of the list.
type takerError struct{ error }

// Unwrap returns the function's error.
func (e *takerError) Unwrap() error { return e.error }

// pages reads a list from l to its end and returns the list's revision. Read requests one
// page. After an error l is at the page that failed, or at the beginning of a list without an end.
func (s *Source) pages(
	ctx context.Context, l *Listing, read func(o metav1.ListOptions) (frame.ListMeta, error),
) (uint64, error) {
	var retry pageRetry
	var passed tokens
	began := time.Now()
	for {
		o := s.Resource.selected(page(l.At, l.Next))
		growth := s.growth.Load()
		o.Limit *= int64(math.Pow(pageGrowth, float64(growth)))
		meta, err := read(o)
		if mine, ok := errors.AsType[*takerError](err); ok {
			return 0, mine.error
		}
		if err != nil {
			s.growPages(l, err, growth)
			if repeatable(l, err) && retry.wait(ctx, err, l.most()) {
				s.Clients.Logger.Debug("list page failed; retrying", "resource", s.Resource.Name, "attempt", retry.attempts, "err", err)
				continue
			}
			return 0, err
		}
		if l.At != 0 && meta.ResourceVersion != l.At {
			return 0, fmt.Errorf("at %d: %w", l.At, ErrInexact)
		}
		retry, l.taken = pageRetry{}, 0
		if l.Next = meta.Continue; l.Next == "" {
			s.Times.add(began)
			return meta.ResourceVersion, nil
		}
		if passed.repeat(l.Next) {
			l.Next = ""
			return 0, errEndless
		}
	}
}

// tokens notices a continue token that a server repeats, also with others in between. It keeps one of them, and a
// later one after twice as many pages each time.
type tokens struct {
	kept        string
	since, most int
}

// repeat reports whether a token is the one that is kept.
func (t *tokens) repeat(next string) bool {
	if next == t.kept {
		return true
	}
	if t.since++; t.since > t.most {
		t.kept, t.since, t.most = next, 0, 2*t.most+1
	}
	return false
}

// growPages makes the pages of later lists larger if this one has expired between two of them.
func (s *Source) growPages(l *Listing, err error, growth int32) {
	if Expired(err) && l.Next != "" && growth < maxGrowth && s.growth.CompareAndSwap(growth, growth+1) {
		s.Clients.Logger.Info("list expired; the next list has larger pages", "resource", s.Resource.Name,
			"limit", PageSize*int64(math.Pow(pageGrowth, float64(growth+1))))
	}
}

// repeatable reports whether the page that failed is worth another request right now. Where
// no page was read yet, the caller may as well begin again later, unless the server only
// asks for patience.
func repeatable(l *Listing, err error) bool {
	if _, busy := kube.Throttled(err); busy {
		return l.taken == 0 || l.fixed()
	}
	switch {
	case !l.fixed(), Expired(err), Unsupported(err), errors.Is(err, kube.ErrStalled), errors.Is(err, kube.ErrOtherCluster),
		apierrors.IsUnauthorized(err), apierrors.IsForbidden(err), apierrors.IsNotFound(err) && !ofProxy(err), apierrors.IsNotAcceptable(err):
		return false
	}
	return true
}

// ListTimes counts complete lists and their duration.
type ListTimes struct {
	count atomic.Uint64
	nanos atomic.Int64
}

// add counts a list that began then. It may be called on nil.
func (l *ListTimes) add(began time.Time) {
	if l != nil {
		l.count.Add(1)
		l.nanos.Add(int64(time.Since(began)))
	}
}

// Total returns how many lists there were, and their duration.
func (l *ListTimes) Total() (uint64, time.Duration) {
	return l.count.Load(), time.Duration(l.nanos.Load())
}

// pageRetry counts the attempts of one page.
type pageRetry struct {
	attempts int
	since    time.Time
	backoff  wait.Backoff
}

// wait waits before the next attempt, as long as the server asks for. It returns false if
// there is none, or not within most of the first.
func (r *pageRetry) wait(ctx context.Context, err error, most time.Duration) bool {
	if r.attempts == 0 {
		r.since = time.Now()
		r.backoff = wait.Backoff{Duration: pageBackoff, Factor: 2, Jitter: 0.5, Steps: pageAttempts, Cap: pageBackoffCap}
	}
	pause := r.backoff.Step()
	if asked, ok := kube.SuggestedDelay(err); ok {
		pause = max(pause, wait.Jitter(asked, 0.1))
	}
	if r.attempts++; r.attempts >= pageAttempts || time.Since(r.since)+pause > most {
		return false
	}
	return kube.Sleep(ctx, pause) == nil
}

// List streams every object of the selection, as n normalises it, or the report about
// one that is malformed, through take, from l on, and returns the list's revision.
func (s *Source) List(ctx context.Context, l *Listing, n *frame.Normaliser, take func(o *frame.Object, bad *frame.Malformed) error) (uint64, error) {
	rv, err := s.pages(ctx, l, func(o metav1.ListOptions) (frame.ListMeta, error) {
		r := listRequest{client: s.lister(), options: o}
		if r.client != s.shared || s.Resource.MetadataOnly || time.Now().UnixNano() < s.listsShare.Load() || !s.Clients.TakePlace(s.Clients.Lists) {
			return s.page(ctx, l, r, n, take)
		}
		defer func() { <-s.Clients.Lists }()
		r.client = s.apart
		meta, err := s.page(ctx, l, r, n, take)
		_, mine := errors.AsType[*takerError](err)
		if err != nil && !mine && ctx.Err() == nil && apierrors.ReasonForError(err) == metav1.StatusReasonUnknown {
			// It was no answer of the server. Lists over the shared connection work as well.
			s.listsShare.Store(time.Now().Add(kube.RefusedApart).UnixNano())
		}
		return meta, err
	})
	if err != nil {
		return 0, fmt.Errorf("list: %w", err)
	}
	return rv, nil
}

// page makes the request for the page of l and hands its objects over, without those that were.
func (s *Source) page(
	ctx context.Context, l *Listing, r listRequest, n *frame.Normaliser, take func(o *frame.Object, bad *frame.Malformed) error,
) (frame.ListMeta, error) {
	r.namespace = cmp.Or(l.Namespace, s.Resource.Namespace)
	skip := l.taken
	return s.stream(ctx, r, func(body io.Reader, g *kube.Guard) (frame.ListMeta, error) {
		return n.ReadList(body, maxObject, l.Memory, func(o *frame.Object, bad *frame.Malformed) error {
			if skip > 0 {
				skip--
				return nil
			}
			g.Pause() // while the log is full, it is not the server that is slow
			defer g.Resume()
			if err := take(o, bad); err != nil {
				return &takerError{err}
			}
			l.taken++
			return nil
		})
	})
}

// Listed is what identifies a listed object and its state.
type Listed struct {
	Namespace, Name, UID string
	RV                   uint64
}

// ListedOf returns what identifies an object.
func ListedOf(o *frame.Object) Listed {
	return Listed{o.Namespace, o.Name, o.UID, o.ResourceVersion}
}

// ListMetadata is List for what identifies objects, without the namespaces that are not
// covered.
func (s *Source) ListMetadata(ctx context.Context, l *Listing, item func(Listed) error) (uint64, error) {
	unreadable := func(bad *frame.Malformed) bool { // what the list seems to lack may be this one
		return s.covers(bad.Namespace) && bad.ResourceVersion == 0 || s.Unidentified(bad) && (bad.Namespace == "" || s.covers(bad.Namespace))
	}
	rv, err := s.pages(ctx, l, func(o metav1.ListOptions) (frame.ListMeta, error) {
		defer s.Clients.Pace.Begin(ctx, s.Resource.GVR.Group)()
		var broken *frame.Malformed
		r := listRequest{client: s.lister(), options: o, identities: true}
		meta, err := s.page(ctx, l, r, s.Clients.Identities, func(o *frame.Object, bad *frame.Malformed) error {
			if bad != nil && unreadable(bad) {
				broken = bad
				return ErrEnough
			}
			if one := identified(o, bad); s.covers(one.Namespace) {
				return item(one)
			}
			return nil
		})
		if broken != nil {
			err = fmt.Errorf("read metadata: %v", broken) //nolint:errorlint // no object is rejected for it
		}
		return meta, err
	})
	if err != nil {
		return 0, fmt.Errorf("list metadata: %w", err)
	}
	return rv, nil
}

// Unidentified reports whether nothing says which object could not be read: it may be any that a
// list seems to lack.
func (s *Source) Unidentified(bad *frame.Malformed) bool {
	return bad.Name == "" || s.Resource.Namespaced && bad.Namespace == ""
}

// identified is what identifies an object, or as much of it as could be read.
func identified(o *frame.Object, bad *frame.Malformed) Listed {
	if bad != nil {
		return Listed{bad.Namespace, bad.Name, bad.UID, bad.ResourceVersion}
	}
	return ListedOf(o)
}

package dynwatch

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"

	"github.com/informd/informd/pkg/dynwatch/internal/frame"
	"github.com/informd/informd/pkg/dynwatch/internal/kube"
)

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
)

// errEnough ends a list of which enough was read.
var errEnough = errors.New("enough")

// page is the options of one list request, rv 0 meaning consistent: what etcd
// holds now. Requests that continue a list carry no revision: the token does
// (the server answers 422 otherwise).
func page(rv uint64, next string) metav1.ListOptions {
	o := metav1.ListOptions{Limit: pageSize, Continue: next}
	if rv != 0 && next == "" {
		o.ResourceVersion = formatRV(rv)
		o.ResourceVersionMatch = metav1.ResourceVersionMatchExact
	}
	return o
}

// listing is a place in a list of several pages: at is the exact revision to
// list, or 0 for what etcd holds now; next is the token of the page to read, and taken
// is how many of its items were handed over; namespace is the one to list, if it is not
// the source's.
type listing struct {
	at        uint64
	next      string
	taken     int
	namespace string
	memory    *frame.Memory // of the objects, see [frame.Normaliser.ReadList]
}

// fixed reports whether the page to read has the same items whenever it is requested.
func (l *listing) fixed() bool { return l.at != 0 || l.next != "" }

// takerError is an error of the function that takes a list's items, not of the list.
type takerError struct{ error }

// Unwrap returns the function's error.
func (e *takerError) Unwrap() error { return e.error }

// pages reads a list from l to its end and returns the list's revision. Read requests one
// page. After an error l is at the page that failed.
func (s *source) pages(ctx context.Context, l *listing, read func(o metav1.ListOptions) (frame.ListMeta, error)) (uint64, error) {
	var retry pageRetry
	began := time.Now()
	for {
		o := page(l.at, l.next)
		o.LabelSelector, o.FieldSelector = s.spec.labelSelector, s.spec.fieldSelector
		growth := s.growth.Load()
		o.Limit *= int64(math.Pow(pageGrowth, float64(growth)))
		meta, err := read(o)
		if err != nil {
			if mine, ok := errors.AsType[*takerError](err); ok {
				return 0, mine.error
			}
			if expired(err) && l.next != "" && growth < maxGrowth && s.growth.CompareAndSwap(growth, growth+1) {
				s.clients.Logger.Info("list expired; the next list has larger pages", "resource", s.spec.name(), "limit", o.Limit*pageGrowth)
			}
			if repeatable(l, err) && retry.wait(ctx, err) {
				s.clients.Logger.Debug("list page failed; retrying", "resource", s.spec.name(), "attempt", retry.attempts, "err", err)
				continue
			}
			return 0, err
		}
		if l.at != 0 && meta.ResourceVersion != l.at {
			return 0, fmt.Errorf("at %d: %w", l.at, errInexact)
		}
		retry, l.taken = pageRetry{}, 0
		if l.next = meta.Continue; l.next == "" {
			s.times.add(began)
			return meta.ResourceVersion, nil
		}
	}
}

// repeatable reports whether the page that failed is worth another request right now. Where
// no page was read yet, the caller may as well begin again later, unless the server only
// asks for patience.
func repeatable(l *listing, err error) bool {
	if _, busy := kube.Throttled(err); busy {
		return l.taken == 0 || l.fixed()
	}
	switch {
	case !l.fixed(), expired(err), unsupported(err), errors.Is(err, kube.ErrStalled), errors.Is(err, kube.ErrOtherCluster),
		apierrors.IsUnauthorized(err), apierrors.IsForbidden(err), apierrors.IsNotFound(err) && !ofProxy(err), apierrors.IsNotAcceptable(err):
		return false
	}
	return true
}

// pageRetry counts the attempts of one page.
type pageRetry struct {
	attempts int
	since    time.Time
	backoff  wait.Backoff
}

// wait waits before the next attempt, as long as the server asks for. It returns false if
// there is none.
func (r *pageRetry) wait(ctx context.Context, err error) bool {
	if r.attempts == 0 {
		r.since = time.Now()
		r.backoff = wait.Backoff{Duration: pageBackoff, Factor: 2, Jitter: 0.5, Steps: pageAttempts, Cap: pageBackoffCap}
	}
	pause := r.backoff.Step()
	if asked, ok := kube.SuggestedDelay(err); ok {
		pause = max(pause, wait.Jitter(asked, 0.1))
	}
	if r.attempts++; r.attempts >= pageAttempts || time.Since(r.since)+pause > pageTime {
		return false
	}
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// list streams every object of the selection, as n normalises it, or the report about
// one that is malformed, through take, from l on, and returns the list's revision.
func (s *source) list(ctx context.Context, l *listing, n *frame.Normaliser, take func(o *frame.Object, bad *frame.Malformed) error) (uint64, error) {
	r := listRequest{client: s.bytes, namespace: cmp.Or(l.namespace, s.spec.namespace)}
	if s.spec.mode == Full && time.Now().UnixNano() >= s.listsShare.Load() && s.clients.TakePlace(s.clients.Lists) {
		defer func() { <-s.clients.Lists }()
		r.client = s.apartBytes
	}
	rv, err := s.pages(ctx, l, func(o metav1.ListOptions) (frame.ListMeta, error) {
		r.options = o
		skip := l.taken
		return s.stream(ctx, r, func(body io.Reader, g *kube.Guard) (frame.ListMeta, error) {
			return n.ReadList(body, maxObject, l.memory, func(o *frame.Object, bad *frame.Malformed) error {
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
	})
	if err != nil {
		return 0, fmt.Errorf("list: %w", err)
	}
	return rv, nil
}

// listed is what identifies a listed object and its state.
type listed struct {
	namespace, name, uid string
	rv                   uint64
}

// listMetadata is list for what identifies objects, without the namespaces that are not
// covered. It holds one page of them at most, however many the server sends.
func (s *source) listMetadata(ctx context.Context, rv uint64, item func(listed) error) (uint64, error) {
	l := listing{at: rv}
	var batch []listed
	flush := func() error {
		for _, one := range batch {
			if err := item(one); err != nil {
				return &takerError{err}
			}
		}
		l.taken += len(batch)
		batch = batch[:0]
		return nil
	}
	rv, err := s.pages(ctx, &l, func(o metav1.ListOptions) (frame.ListMeta, error) {
		batch = batch[:0]
		skip := l.taken
		meta, err := s.identities(ctx, listRequest{client: s.bytes, namespace: s.spec.namespace, options: o, identities: true},
			func(one listed) error {
				if skip > 0 {
					skip--
					return nil
				}
				if len(batch) == pageSize { // the server ignores the limit
					if err := flush(); err != nil {
						return err
					}
				}
				batch = append(batch, one)
				return nil
			})
		if err == nil {
			err = flush()
		}
		return meta, err
	})
	if err != nil {
		return 0, fmt.Errorf("list metadata: %w", err)
	}
	return rv, nil
}

// identities makes one list request and hands over what identifies the items, but for
// those of namespaces that are not covered.
func (s *source) identities(ctx context.Context, r listRequest, item func(listed) error) (frame.ListMeta, error) {
	defer s.clients.Pace.Begin(ctx)()
	return s.stream(ctx, r, func(body io.Reader, g *kube.Guard) (frame.ListMeta, error) {
		return s.clients.Identities.ReadList(body, maxObject, nil, func(o *frame.Object, bad *frame.Malformed) error {
			one := identified(o, bad)
			switch {
			case !s.filter.covers(one.namespace):
				return nil
			case one.name == "" || one.rv == 0:
				return fmt.Errorf("read metadata: %v", bad) //nolint:errorlint // no object is rejected for it
			}
			g.Pause()
			defer g.Resume()
			return item(one)
		})
	})
}

// identified is what identifies an object, or as much of it as could be read.
func identified(o *frame.Object, bad *frame.Malformed) listed {
	if bad != nil {
		return listed{bad.Namespace, bad.Name, bad.UID, bad.ResourceVersion}
	}
	return listed{o.Namespace, o.Name, o.UID, o.ResourceVersion}
}

// listRequest is one list request.
type listRequest struct {
	client    rest.Interface
	namespace string
	options   metav1.ListOptions
	// identities: metadata alone is wanted, and whole objects will do.
	identities bool
}

// readList makes one list request and streams its items. The bytes given to item are
// valid during the call only. Item ends the list early with [errEnough]; the metadata is
// what was read up to there then.
func (s *source) readList(ctx context.Context, r listRequest, item func(raw []byte) error) (frame.ListMeta, error) {
	return s.stream(ctx, r, func(body io.Reader, g *kube.Guard) (frame.ListMeta, error) {
		return frame.ReadList(body, maxObject, func(raw []byte) error {
			g.Pause()
			defer g.Resume()
			if err := item(raw); err != nil {
				return &takerError{err}
			}
			return nil
		})
	})
}

// stream makes one list request and has read read the answer. If client is the one with
// connections of their own, and no answer comes, the shared connection is asked.
func (s *source) stream(ctx context.Context, r listRequest, read func(body io.Reader, g *kube.Guard) (frame.ListMeta, error)) (meta frame.ListMeta, err error) {
	s.clients.Pace.Open(ctx)
	g := kube.NewGuard(ctx)
	defer g.Close()
	defer func() {
		err = g.Explain(err)
		s.clients.Pace.Note(err)
	}()
	ask := func(client rest.Interface) (io.ReadCloser, error) {
		request := client.Get().AbsPath(s.path(r.namespace)...).SpecificallyVersionedParams(&r.options, metav1.ParameterCodec, schema.GroupVersion{Version: "v1"})
		if r.identities {
			request.SetHeader("Accept", frame.AcceptIdentities)
		}
		return request.Stream(g.Context)
	}
	body, err := ask(r.client)
	if err != nil && r.client == s.apartBytes && apierrors.ReasonForError(err) == metav1.StatusReasonUnknown {
		if body, err = ask(s.bytes); err == nil {
			s.shareLists()
		}
	}
	if err != nil {
		return frame.ListMeta{}, err
	}
	defer func() { err = errors.Join(err, body.Close()) }()
	if err := s.clients.Identity.Confirm(g.Context); err != nil {
		return frame.ListMeta{}, err
	}
	if meta, err = read(body, g); err != nil {
		if _, mine := errors.AsType[*takerError](err); !mine && r.client == s.apartBytes && ctx.Err() == nil {
			s.shareLists() // whatever it was: that one works as well
		}
		return meta, err
	}
	// Read to the end, so that an HTTP/1.1 connection can be used again.
	_, err = io.Copy(io.Discard, body)
	return meta, err
}

// shareLists has lists share a connection for some time.
func (s *source) shareLists() { s.listsShare.Store(time.Now().Add(kube.RefusedApart).UnixNano()) }

func (s *source) path(namespace string) []string {
	gvr := s.resolved.gvr
	path := []string{"/apis", gvr.Group, gvr.Version}
	if gvr.Group == "" {
		path = []string{"/api", gvr.Version}
	}
	if namespace != "" {
		path = append(path, "namespaces", namespace)
	}
	return append(path, gvr.Resource)
}

package dynwatch

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/informd/informd/pkg/dynwatch/internal/frame"
	"github.com/informd/informd/pkg/dynwatch/internal/kube"
)

const (
	// pageSize is how many objects one list request asks for. A page is read as
	// a stream, so it bounds the server's work, not our memory.
	pageSize = 500
	// maxObject bounds one object in a list. etcd's own limit is 1.5 MiB by
	// default, and client-go's watch decoder ends at 16 MiB.
	maxObject = 16 << 20
	// minWatch is the least time after which the server is asked to end a watch;
	// the real one is random up to twice that, so that watches do not all end
	// together.
	minWatch = 5 * time.Minute
)

// lookAttempts is how often an object is looked up until a failure counts.
const lookAttempts = 4

// errInexact: the server answered a list at an exact revision with another one.
var errInexact = errors.New("the server does not list at exact revisions")

// errUnselected: the server answered a list of one name with other objects.
var errUnselected = errors.New("the server does not list by name")

// unsupported reports whether err says that the server cannot list at an exact
// revision, or by name, as some aggregated API servers.
func unsupported(err error) bool {
	return errors.Is(err, errInexact) || errors.Is(err, errUnselected) || apierrors.IsInvalid(err) || apierrors.IsBadRequest(err)
}

// source makes the requests for one target's resource.
type source struct {
	spec     spec
	resolved resolved
	// filter is what objects of namespaces that are not covered are left out by;
	// frames does not render those that are not wanted, whole renders all.
	filter        *filter
	frames, whole *frame.Normaliser
	// bytes and dynamic are the same client, raw and as client-go's dynamic one. Other is
	// that over a new connection for each request, apart over one for each watch.
	bytes, otherBytes, apartBytes rest.Interface
	dynamic, other, apart         dynamic.ResourceInterface
	// listsShare is until when lists go over the shared connection, in Unix nanoseconds:
	// one over a connection of its own has failed.
	listsShare atomic.Int64
	// times counts the lists of the target, nil for a source without a target.
	times *listTimes
	// unselectable: the server refuses field selectors.
	unselectable atomic.Bool
	// growth is by how many factors of pageGrowth the pages of lists are larger.
	growth  atomic.Int32
	clients *kube.Clients
}

// newSource makes the source of a resource. Its objects come in the shape that shape
// returns at the time; a nil filter lets all through.
func newSource(s spec, r resolved, c *kube.Clients, redactor *frame.Redactor, shape func() *frame.Shape, f *filter) (*source, error) {
	if s.group != "" || s.resource != "secrets" {
		redactor = nil // there is nothing to hide but what the shape does
	}
	src := &source{spec: s, resolved: r, clients: c, filter: f}
	src.whole = frame.NewNormaliser(r.gvr.GroupVersion().String(), r.kind, redactor).Shaped(shape)
	src.frames = src.whole
	if f != nil {
		src.frames = src.whole.Only(f.wants)
	}
	metadataOnly := s.mode == Metadata
	var err error
	if src.bytes, err = frame.NewRESTClient(c.Config, c.Shared, src.frames, metadataOnly); err != nil {
		return nil, fmt.Errorf("create client: %w", err)
	}
	if src.otherBytes, err = frame.NewRESTClient(c.Config, c.Other, src.frames, metadataOnly); err != nil {
		return nil, fmt.Errorf("create client: %w", err)
	}
	if src.apartBytes, err = frame.NewRESTClient(c.Config, c.Apart, src.frames, metadataOnly); err != nil {
		return nil, fmt.Errorf("create client: %w", err)
	}
	src.apart = dynamic.New(src.apartBytes).Resource(r.gvr).Namespace(s.namespace)
	src.dynamic = dynamic.New(src.bytes).Resource(r.gvr).Namespace(s.namespace)
	src.other = dynamic.New(src.otherBytes).Resource(r.gvr).Namespace(s.namespace)
	return src, nil
}

// watch opens a watch from rv, which lasts until ctx ends at the latest; end ctx
// when done with it. Its events carry *frame.Watched, or *metav1.Status
// for watch.Error. A watch of whole objects has a connection of its own, if there are not
// too many. With fresh it has a new connection, see [clients.other].
func (s *source) watch(ctx context.Context, rv uint64, fresh bool) (watch.Interface, error) {
	client := s.dynamic
	if fresh {
		client = s.other
	}
	s.clients.Pace.Open(ctx)
	g := kube.NewGuard(ctx)
	defer g.Pause()                                           // once the watch is open, the watchdog is its guard
	seconds := int64((minWatch + rand.N(minWatch)).Seconds()) //nolint:gosec // jitter, not a secret
	options := metav1.ListOptions{
		ResourceVersion:     formatRV(rv),
		AllowWatchBookmarks: true,
		TimeoutSeconds:      &seconds,
		LabelSelector:       s.spec.labelSelector,
		FieldSelector:       s.spec.fieldSelector,
	}
	refused := false
	if !fresh && s.spec.mode == Full && s.clients.TakeSlot(ctx) {
		w, err := s.apart.Watch(g.Context, options)
		if err == nil {
			return w, nil
		}
		if refused = apierrors.ReasonForError(err) == metav1.StatusReasonUnknown; !refused {
			s.clients.Pace.Note(err)
			return nil, fmt.Errorf("watch: %w", g.Explain(err))
		}
	}
	w, err := client.Watch(g.Context, options)
	if err == nil && refused {
		s.clients.Share()
	}
	if err != nil {
		s.clients.Pace.Note(err)
		return nil, fmt.Errorf("watch: %w", g.Explain(err))
	}
	return w, nil
}

// objectAt returns an object by name as it was at rv (now if rv is 0), whether
// or not the selection holds it, and false if there was none. A single object at
// an exact revision is always served by etcd, and never by the watch cache.
func (s *source) objectAt(ctx context.Context, namespace, name string, rv uint64) (frame.Object, bool, error) {
	found, ok, _, err := s.look(ctx, namespace, name, rv)
	return found, ok, err
}

// matchAt is objectAt for the selection: false also stands for an object that
// does not match it at rv.
func (s *source) matchAt(ctx context.Context, namespace, name string, rv uint64) (frame.Object, bool, error) {
	found, ok, _, err := s.matchBy(ctx, namespace, name, rv)
	return found, ok, err
}

// matchBy is matchAt, and the revision of the answer.
func (s *source) matchBy(ctx context.Context, namespace, name string, rv uint64) (frame.Object, bool, uint64, error) {
	o := byName(rv, name)
	o.LabelSelector = s.spec.labelSelector
	if s.spec.fieldSelector != "" {
		o.FieldSelector += "," + s.spec.fieldSelector
	}
	return s.lookBy(ctx, namespace, name, rv, o)
}

// look is objectAt, and the revision at which it looked.
func (s *source) look(ctx context.Context, namespace, name string, rv uint64) (frame.Object, bool, uint64, error) {
	return s.lookBy(ctx, namespace, name, rv, byName(rv, name))
}

// byName is the options of a list of one object.
func byName(rv uint64, name string) metav1.ListOptions {
	o := page(rv, "")
	o.FieldSelector = fields.OneTermEqualSelector("metadata.name", name).String()
	return o
}

// lookBy looks an object up. A failure that can pass costs another attempt and not all that
// a comparison has read so far: there are up to [lookAttempts].
func (s *source) lookBy(ctx context.Context, namespace, name string, rv uint64, o metav1.ListOptions) (frame.Object, bool, uint64, error) {
	for retry := (pageRetry{}); ; {
		found, ok, at, err := s.lookOnce(ctx, namespace, name, rv, o)
		if !canPass(err) || retry.attempts+1 >= lookAttempts || !retry.wait(ctx, err) {
			return found, ok, at, err
		}
	}
}

// canPass reports whether another attempt can succeed soon: the connection broke, the server
// is overloaded, or the server, or a proxy before it, is not available.
func canPass(err error) bool {
	if _, bad := errors.AsType[*frame.Malformed](err); bad || err == nil || unsupported(err) ||
		errors.Is(err, kube.ErrStalled) || errors.Is(err, kube.ErrOtherCluster) || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return false
	}
	if wait, _ := kube.SuggestedDelay(err); wait > kube.PaceClosed {
		return false // the caller waits
	}
	switch apierrors.ReasonForError(err) {
	case metav1.StatusReasonUnknown, metav1.StatusReasonServiceUnavailable, metav1.StatusReasonTimeout, metav1.StatusReasonServerTimeout,
		metav1.StatusReasonTooManyRequests:
		return true
	case metav1.StatusReasonNotFound, metav1.StatusReasonInternalError:
		return ofProxy(err)
	default:
		return false
	}
}

// ofProxy reports whether an answer is no Status, as those of a proxy.
func ofProxy(err error) bool {
	return apierrors.HasStatusCause(err, metav1.CauseTypeUnexpectedServerResponse)
}

func (s *source) lookOnce(ctx context.Context, namespace, name string, rv uint64, o metav1.ListOptions) (frame.Object, bool, uint64, error) {
	defer s.clients.Pace.Begin(ctx)()
	var found frame.Object
	var ok bool
	meta, err := s.readList(ctx, listRequest{client: s.bytes, namespace: namespace, options: o}, func(raw []byte) error {
		one, err := s.whole.Normalise(raw)
		is := one.Name
		if bad, isBad := errors.AsType[*frame.Malformed](err); isBad {
			is = cmp.Or(bad.Name, name)
		}
		if is != name {
			return errUnselected
		}
		found, ok = one, err == nil
		return err
	})
	if err == nil && rv != 0 && meta.ResourceVersion != rv {
		err = errInexact
	}
	if err != nil {
		return frame.Object{}, false, 0, fmt.Errorf("get %s/%s at revision %d: %w", namespace, name, rv, err)
	}
	return found, ok, meta.ResourceVersion, nil
}

func formatRV(rv uint64) string { return strconv.FormatUint(rv, 10) }

// parseRV reads a resourceVersion, a decimal number everywhere since KEP-5504.
func parseRV(s string) (uint64, error) {
	rv, err := strconv.ParseUint(s, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("resourceVersion %q is not a number", s)
	}
	return rv, nil
}

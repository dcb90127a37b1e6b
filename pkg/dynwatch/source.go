package dynwatch

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"strconv"
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"

	"github.com/informd/informd/pkg/dynwatch/internal/frame"
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

// errInexact: the server answered a list at an exact revision with another one.
var errInexact = errors.New("the server does not list at exact revisions")

// unsupported reports whether err says that the server cannot list at an exact
// revision, as some aggregated API servers.
func unsupported(err error) bool {
	return errors.Is(err, errInexact) || apierrors.IsInvalid(err) || apierrors.IsBadRequest(err)
}

// source makes the requests for one target's resource.
type source struct {
	spec     spec
	resolved resolved
	// filter is what objects of namespaces that are not covered are left out by;
	// frames does not render those that are not wanted, whole renders all.
	filter        *filter
	frames, whole *frame.Normaliser
	// bytes and dynamic are the same client, raw and as client-go's dynamic one;
	// the other two are that on the second connection, apart on one for each watch.
	bytes, otherBytes, apartBytes rest.Interface
	dynamic, other, apart         dynamic.ResourceInterface
	// listsShare is until when lists go over the shared connection, in Unix nanoseconds:
	// one over a connection of its own has failed.
	listsShare atomic.Int64
	metadata   metadata.ResourceInterface
	clients    *clients
}

// newSource makes the source of a resource. Its objects come in the shape that shape
// returns at the time; a nil filter lets all through.
func newSource(s spec, r resolved, c *clients, redactor *frame.Redactor, shape func() *frame.Shape, f *filter) (*source, error) {
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
	if src.bytes, err = frame.NewRESTClient(c.config, c.shared, src.frames, metadataOnly); err != nil {
		return nil, fmt.Errorf("make client: %w", err)
	}
	if src.otherBytes, err = frame.NewRESTClient(c.config, c.other, src.frames, metadataOnly); err != nil {
		return nil, fmt.Errorf("make client: %w", err)
	}
	if src.apartBytes, err = frame.NewRESTClient(c.config, c.apart, src.frames, metadataOnly); err != nil {
		return nil, fmt.Errorf("make client: %w", err)
	}
	src.apart = dynamic.New(src.apartBytes).Resource(r.gvr).Namespace(s.namespace)
	src.dynamic = dynamic.New(src.bytes).Resource(r.gvr).Namespace(s.namespace)
	src.other = dynamic.New(src.otherBytes).Resource(r.gvr).Namespace(s.namespace)
	src.metadata = c.metadata.Resource(r.gvr).Namespace(s.namespace)
	return src, nil
}

// watch opens a watch from rv, which lasts until ctx ends at the latest; end ctx
// when done with it. Its events carry *frame.Watched, or *metav1.Status
// for watch.Error. A watch of whole objects has a connection of its own, if there are not
// too many. With fresh it goes over the second connection, opened anew
// unless another watch is on it.
func (s *source) watch(ctx context.Context, rv uint64, fresh bool) (watch.Interface, error) {
	client := s.dynamic
	if fresh {
		s.clients.other.CloseIdleConnections()
		client = s.other
	}
	g := newGuard(ctx)
	defer g.pause()                                           // once the watch is open, the watchdog is its guard
	seconds := int64((minWatch + rand.N(minWatch)).Seconds()) //nolint:gosec // jitter, not a secret
	options := metav1.ListOptions{
		ResourceVersion:     formatRV(rv),
		AllowWatchBookmarks: true,
		TimeoutSeconds:      &seconds,
		LabelSelector:       s.spec.labelSelector,
		FieldSelector:       s.spec.fieldSelector,
	}
	refused := false
	if !fresh && s.spec.mode == Full && s.clients.takeSlot(ctx) {
		w, err := s.apart.Watch(g.ctx, options)
		if err == nil {
			return w, nil
		}
		if refused = apierrors.ReasonForError(err) == metav1.StatusReasonUnknown; !refused {
			return nil, fmt.Errorf("watch: %w", g.explain(err))
		}
	}
	w, err := client.Watch(g.ctx, options)
	if err == nil && refused {
		s.clients.share()
	}
	if err != nil {
		return nil, fmt.Errorf("watch: %w", g.explain(err))
	}
	return w, nil
}

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
// list, or 0 for what etcd holds now; next is the token of the page to read;
// namespace is the one to list, if it is not the source's.
type listing struct {
	at        uint64
	next      string
	namespace string
	memory    *frame.Memory // of the objects, see [frame.Normaliser.ReadList]
}

// list streams every object of the selection, as n normalises it, or the report about
// one that is malformed, through take, from where l stands, and returns the list's
// revision. After an error l stands at the page that was not read to its end.
func (s *source) list(ctx context.Context, l *listing, n *frame.Normaliser, take func(o *frame.Object, bad *frame.Malformed) error) (uint64, error) {
	client := s.bytes
	if s.spec.mode == Full && time.Now().UnixNano() >= s.listsShare.Load() && s.clients.takePlace(s.clients.lists) {
		defer func() { <-s.clients.lists }()
		client = s.apartBytes
	}
	for {
		o := page(l.at, l.next)
		o.LabelSelector, o.FieldSelector = s.spec.labelSelector, s.spec.fieldSelector
		meta, err := s.stream(ctx, client, cmp.Or(l.namespace, s.spec.namespace), o, func(body io.Reader, g *guard) (frame.ListMeta, error) {
			return n.ReadList(body, maxObject, l.memory, func(o *frame.Object, bad *frame.Malformed) error {
				g.pause() // while the log is full, it is not the server that is slow
				defer g.resume()
				return take(o, bad)
			})
		})
		if err != nil {
			return 0, fmt.Errorf("list: %w", err)
		}
		if l.at != 0 && meta.ResourceVersion != l.at {
			return 0, fmt.Errorf("list at %d: %w", l.at, errInexact)
		}
		if l.next = meta.Continue; l.next == "" {
			return meta.ResourceVersion, nil
		}
	}
}

// readList makes one list request and streams its items. The bytes given to item are
// valid during the call only.
func (s *source) readList(ctx context.Context, client rest.Interface, namespace string, o metav1.ListOptions, item func(raw []byte) error) (frame.ListMeta, error) {
	return s.stream(ctx, client, namespace, o, func(body io.Reader, g *guard) (frame.ListMeta, error) {
		return frame.ReadList(body, maxObject, func(raw []byte) error {
			g.pause()
			defer g.resume()
			return item(raw)
		})
	})
}

// stream makes one list request and has read read the answer. If client is the one with
// connections of their own, and no answer comes, the shared connection is asked.
func (s *source) stream(
	ctx context.Context, client rest.Interface, namespace string, o metav1.ListOptions, read func(body io.Reader, g *guard) (frame.ListMeta, error),
) (meta frame.ListMeta, err error) {
	g := newGuard(ctx)
	defer g.close()
	defer func() { err = g.explain(err) }()
	ask := func(client rest.Interface) (io.ReadCloser, error) {
		return client.Get().AbsPath(s.path(namespace)...).SpecificallyVersionedParams(&o, metav1.ParameterCodec, schema.GroupVersion{Version: "v1"}).Stream(g.ctx)
	}
	body, err := ask(client)
	if err != nil && client == s.apartBytes && apierrors.ReasonForError(err) == metav1.StatusReasonUnknown {
		if body, err = ask(s.bytes); err == nil {
			s.shareLists()
		}
	}
	if err != nil {
		return frame.ListMeta{}, err
	}
	defer func() { err = errors.Join(err, body.Close()) }()
	if meta, err = read(body, g); err != nil {
		if client == s.apartBytes && ctx.Err() == nil {
			s.shareLists() // whatever it was: that one works as well
		}
		return meta, err
	}
	// Read to the end, so that an HTTP/1.1 connection can be used again.
	_, err = io.Copy(io.Discard, body)
	return meta, err
}

// shareLists has lists share a connection for some time.
func (s *source) shareLists() { s.listsShare.Store(time.Now().Add(refusedApart).UnixNano()) }

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

// listMetadata is list with metadata only, decoded, without the namespaces that
// are not covered.
func (s *source) listMetadata(ctx context.Context, rv uint64, item func(*metav1.PartialObjectMetadata) error) (uint64, error) {
	for next := ""; ; {
		o := page(rv, next)
		o.LabelSelector, o.FieldSelector = s.spec.labelSelector, s.spec.fieldSelector
		l, err := s.metadataPage(ctx, o)
		if err != nil {
			return 0, fmt.Errorf("list metadata: %w", err)
		}
		got, err := parseRV(l.ResourceVersion)
		if err != nil {
			return 0, fmt.Errorf("list metadata: %w", err)
		}
		if rv != 0 && got != rv {
			return 0, fmt.Errorf("list metadata at %d: %w", rv, errInexact)
		}
		for i := range l.Items {
			if !s.filter.covers(l.Items[i].Namespace) {
				continue
			}
			if err := item(&l.Items[i]); err != nil {
				return 0, err
			}
		}
		if l.Continue == "" {
			return got, nil
		}
		next = l.Continue
	}
}

func (s *source) metadataPage(ctx context.Context, o metav1.ListOptions) (*metav1.PartialObjectMetadataList, error) {
	defer s.clients.pace.begin(ctx)()
	g := newGuard(ctx)
	defer g.close()
	l, err := s.metadata.List(g.ctx, o)
	return l, g.explain(err)
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
	o := byName(rv, name)
	o.LabelSelector = s.spec.labelSelector
	if s.spec.fieldSelector != "" {
		o.FieldSelector += "," + s.spec.fieldSelector
	}
	found, ok, _, err := s.lookBy(ctx, namespace, name, rv, o)
	return found, ok, err
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

func (s *source) lookBy(ctx context.Context, namespace, name string, rv uint64, o metav1.ListOptions) (frame.Object, bool, uint64, error) {
	defer s.clients.pace.begin(ctx)()
	var found frame.Object
	var ok bool
	meta, err := s.readList(ctx, s.bytes, namespace, o, func(raw []byte) error {
		var err error
		found, err = s.whole.Normalise(raw)
		ok = err == nil
		return err
	})
	if err == nil && rv != 0 && meta.ResourceVersion != rv {
		err = errInexact
	}
	if err != nil {
		return frame.Object{}, false, 0, fmt.Errorf("look up %s/%s at revision %d: %w", namespace, name, rv, err)
	}
	return found, ok, meta.ResourceVersion, nil
}

// revision returns the resource's newest revision in etcd.
func (s *source) revision(ctx context.Context) (uint64, error) {
	l, err := s.metadataPage(ctx, metav1.ListOptions{Limit: 1})
	if err != nil {
		return 0, fmt.Errorf("get revision: %w", err)
	}
	return parseRV(l.ResourceVersion)
}

// revisionElsewhere is revision over the second connection, opened anew unless a
// watch is on it.
func (s *source) revisionElsewhere(ctx context.Context) (uint64, error) {
	s.clients.other.CloseIdleConnections()
	meta, err := s.readList(ctx, s.otherBytes, s.spec.namespace, metav1.ListOptions{Limit: 1}, func([]byte) error { return nil })
	if err != nil {
		return 0, fmt.Errorf("get revision: %w", err)
	}
	return meta.ResourceVersion, nil
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

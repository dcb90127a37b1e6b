package listwatch

import (
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"strconv"
	"sync/atomic"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	"github.com/informd/informd/pkg/dynwatch/internal/frame"
	"github.com/informd/informd/pkg/dynwatch/internal/kube"
)

const (
	// maxObject bounds one object in a list. etcd's own limit is 1.5 MiB by
	// default, of which escapes make six times as much JSON.
	maxObject = 64 << 20
)

// ErrInexact says that the server answered a list at an exact revision with another one.
var ErrInexact = errors.New("the server does not list at exact revisions")

// ErrUnselected says that the server answered a list of one name with other objects.
var ErrUnselected = errors.New("the server does not list by name")

// ErrWrongList says that a list lacks an object that etcd has: the watch cache is wrong.
var ErrWrongList = errors.New("a list of the API server lacks an object that exists")

// Unsupported reports whether err says that the server cannot list at an exact
// revision, or by name, as some aggregated API servers.
func Unsupported(err error) bool {
	return errors.Is(err, ErrInexact) || errors.Is(err, ErrUnselected) ||
		apierrors.IsInvalid(err) || apierrors.IsBadRequest(err)
}

// Resource is what a source lists and watches.
type Resource struct {
	GVR        schema.GroupVersionResource
	Kind       string
	Namespaced bool
	// Name is that of the target, for the log.
	Name string
	// Namespace is empty for all.
	Namespace                    string
	MetadataOnly                 bool
	LabelSelector, FieldSelector string
}

// Source makes the requests for one target's resource.
type Source struct {
	Resource Resource
	// covers reports whether lists of metadata contain the objects of a namespace.
	covers func(namespace string) bool
	// Frames does not render objects of namespaces that are not wanted, whole renders all.
	Frames, Whole *frame.Normaliser
	// shared makes requests over the shared connection, other over a new one for each request, and
	// apart over one for each watch.
	shared, other, apart rest.Interface
	// listsShare is until when lists go over the shared connection, in Unix nanoseconds:
	// one over a connection of its own has failed.
	listsShare atomic.Int64
	// elsewhere: lists go over a new connection for each request.
	elsewhere atomic.Bool
	// Times counts the lists of the target, nil for a source without a target.
	Times *ListTimes
	// unselectable: the server refuses field selectors.
	unselectable atomic.Bool
	// confinedUntil is until when no look goes beyond the selection, in Unix nanoseconds:
	// the server has refused one.
	confinedUntil atomic.Int64
	// growth is by how many factors of pageGrowth the pages of lists are larger.
	growth  atomic.Int32
	Clients *kube.Clients
}

// Options are what makes a source.
type Options struct {
	Clients *kube.Clients
	// Options say how objects are normalised.
	frame.Options
	// Covers reports whether lists of metadata contain the objects of a namespace, nil for
	// all.
	Covers func(namespace string) bool
}

// New makes the source of a resource.
func New(of Resource, o Options) (*Source, error) {
	s := &Source{Resource: of, Clients: o.Clients, covers: o.Covers}
	if s.covers == nil {
		s.covers = func(string) bool { return true }
	}
	version := of.GVR.GroupVersion().String()
	s.Frames = frame.NewNormaliser(version, of.Kind, o.Options)
	s.Whole = s.Frames
	if o.Wants != nil {
		o.Wants = nil
		s.Whole = frame.NewNormaliser(version, of.Kind, o.Options)
	}
	var err error
	for _, one := range []struct {
		client *rest.Interface
		over   *http.Client
	}{{&s.shared, o.Clients.Shared}, {&s.other, o.Clients.Other}, {&s.apart, o.Clients.Apart}} {
		*one.client, err = frame.NewRESTClient(o.Clients.Config, one.over, s.Frames, of.MetadataOnly)
		if err != nil {
			return nil, fmt.Errorf("create client: %w", err)
		}
	}
	return s, nil
}

// request is one for a list with options.
func (s *Source) request(client rest.Interface, namespace string, o *metav1.ListOptions) *rest.Request {
	gvr := s.Resource.GVR
	path := []string{"/apis", gvr.Group, gvr.Version}
	if gvr.Group == "" {
		path = []string{"/api", gvr.Version}
	}
	if namespace != "" {
		path = append(path, "namespaces", namespace)
	}
	return client.Get().AbsPath(append(path, gvr.Resource)...).
		SpecificallyVersionedParams(o, metav1.ParameterCodec, schema.GroupVersion{Version: "v1"})
}

// ListElsewhere has later lists go over new connections, or over the shared one again.
func (s *Source) ListElsewhere(elsewhere bool) { s.elsewhere.Store(elsewhere) }

// lister is the client for lists.
func (s *Source) lister() rest.Interface {
	if s.elsewhere.Load() {
		return s.other
	}
	return s.shared
}

// Expired reports whether err says that a revision is gone.
func Expired(err error) bool {
	return err != nil && (apierrors.IsResourceExpired(err) || apierrors.IsGone(err))
}

// oldestInMessage finds Y in "too old resource version: X (Y)", which comes from
// the API server's watch cache (storage/cacher/watch_cache.go): the oldest
// revision from which it can serve a watch. etcd's own error names none.
var oldestInMessage = regexp.MustCompile(`too old resource version: \d+ \((\d+)\)`)

// OldestNamed is the revision that an error names as the oldest to watch from, 0 if
// it names none.
func OldestNamed(err error) uint64 {
	if m := oldestInMessage.FindStringSubmatch(err.Error()); m != nil {
		if oldest, err := strconv.ParseUint(m[1], 10, 64); err == nil {
			return oldest
		}
	}
	return 0
}

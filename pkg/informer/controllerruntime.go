package informer

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/informd/informd/pkg/dynwatch"
	"github.com/informd/informd/pkg/informer/internal/objects"
)

// probeTimeout limits a probe. Credentials of an exec plugin may take seconds.
const probeTimeout = 30 * time.Second

var (
	errProbed     = errors.New("the request is a probe; nothing was sent")
	errUnobserved = errors.New("its list did not use the rest.Config of ForControllerRuntime")
)

// ForControllerRuntime returns the NewInformer of controller-runtime's cache.Options:
//
//	ctrl.NewManager(config, ctrl.Options{Cache: cache.Options{NewInformer: informer.ForControllerRuntime(config)}})
//
// It wraps the transport of config, so call it once, before NewManager, and pass the same config
// to NewManager. It contacts no server. The returned function may be called concurrently.
//
// controller-runtime hides the resource, namespace and selectors of an informer behind functions
// that send requests. The returned function therefore calls the list function once, with a
// context that the wrapped transport recognizes. The transport reads the URL and returns an
// error; it sends nothing. If no URL is found, for example with another HTTP client, the
// returned function logs a warning and returns client-go's informer. That list is then sent, with
// a limit of one object.
//
// Objects are as controller-runtime's informers return them: typed objects have no kind, and
// metadata has the kind of its resource. The informers log to slog.Default().
func ForControllerRuntime(config *rest.Config) func(cache.ListerWatcher, runtime.Object, time.Duration, cache.Indexers) cache.SharedIndexInformer {
	p := &pool{options: Options{}.withDefaults(), used: make(map[*runner]map[string]bool)}
	if config != nil {
		p.config = rest.CopyConfig(config)
		config.Wrap(func(rt http.RoundTripper) http.RoundTripper { return observer{rt} })
	}
	return func(lw cache.ListerWatcher, example runtime.Object, resync time.Duration, indexers cache.Indexers) cache.SharedIndexInformer {
		i, err := p.informer(lw, example, resync, indexers)
		if err != nil {
			p.options.Logger.Warn("informer not replaced; using client-go's (call ForControllerRuntime before NewManager, with the same rest.Config)",
				slog.String("type", fmt.Sprintf("%T", example)), slog.Any("error", err))
			return cache.NewSharedIndexInformer(lw, example, resync, indexers)
		}
		return i
	}
}

// probeKey is the key of a probe's channel in a context.
type probeKey struct{}

// observer answers probes with an error, after their URL is in their channel.
type observer struct{ next http.RoundTripper }

// RoundTrip implements [http.RoundTripper].
func (o observer) RoundTrip(r *http.Request) (*http.Response, error) {
	seen, ok := r.Context().Value(probeKey{}).(chan *url.URL)
	if !ok {
		return o.next.RoundTrip(r)
	}
	select {
	case seen <- r.URL:
	default: // only the first request counts
	}
	return nil, errProbed
}

// WrappedRoundTripper returns the wrapped transport. client-go uses it.
func (o observer) WrappedRoundTripper() http.RoundTripper { return o.next }

// probe returns the URL of a list.
func probe(lw cache.ListerWatcher) (u *url.URL, err error) {
	lister, ok := lw.(cache.ListerWithContext)
	if !ok {
		return nil, fmt.Errorf("%T has no ListWithContext", lw)
	}
	defer func() {
		if fault := recover(); fault != nil {
			err = fmt.Errorf("list: panic: %v", fault)
		}
	}()
	seen := make(chan *url.URL, 1)
	ctx, cancel := context.WithTimeout(context.WithValue(context.Background(), probeKey{}, seen), probeTimeout)
	defer cancel()
	_, err = lister.ListWithContext(ctx, metav1.ListOptions{Limit: 1})
	select {
	case u = <-seen:
		return u, nil
	default:
		return nil, errors.Join(errUnobserved, err)
	}
}

// pool has the runners of one manager. A runner watches a resource in one namespace and one
// version, so informers that need more of them get further runners.
type pool struct {
	config  *rest.Config // nil if the program has none
	options Options

	mu      sync.Mutex
	runners []*runner
	used    map[*runner]map[string]bool // by route
}

// informer returns the informer of what lw lists.
func (p *pool) informer(lw cache.ListerWatcher, example runtime.Object, resync time.Duration, indexers cache.Indexers) (cache.SharedIndexInformer, error) {
	if p.config == nil {
		return nil, errors.New("ForControllerRuntime was called without a rest.Config")
	}
	u, err := probe(lw)
	if err != nil {
		return nil, err
	}
	host, _, err := rest.DefaultServerUrlFor(p.config)
	if err != nil {
		return nil, fmt.Errorf("read rest.Config: %w", err)
	}
	gvr, namespace, err := parseList(host.Path, u.Path)
	if err != nil {
		return nil, err
	}
	into, err := typeOf(gvr, example)
	if err != nil {
		return nil, err
	}
	mode := dynwatch.Full
	if into == objects.MetadataType() {
		into, mode = objects.KindedType(), dynwatch.Metadata
	}
	o := p.options
	o.DefaultResync, o.Namespace = resync, namespace
	o.LabelSelector, o.FieldSelector = u.Query().Get("labelSelector"), u.Query().Get("fieldSelector")
	wanted := (&runner{options: o, mode: mode}).resource(gvr)
	if err := p.check(wanted); err != nil {
		return nil, err
	}
	r, leave := p.enter(mode, route(gvr))
	i := newSharedInformer(r, gvr, into, indexers)
	i.wanted, i.options, i.leave = wanted, o, leave
	return i, nil
}

// check returns the error that the start of a watch would have.
func (p *pool) check(wanted dynwatch.Resource) error {
	m, err := newRunner(p.config, p.options, wanted.Mode).open()
	if err != nil {
		return err
	}
	defer m.Close()
	return m.Check([]dynwatch.Resource{wanted})
}

// enter returns a runner of a mode without an informer of a route. The informer of the route
// leaves when it has ended.
func (p *pool) enter(mode dynwatch.Mode, route string) (r *runner, leave func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, other := range p.runners {
		if other.mode == mode && !p.used[other][route] {
			r = other
			break
		}
	}
	if r == nil {
		r = newRunner(p.config, p.options, mode)
		p.runners = append(p.runners, r)
		p.used[r] = make(map[string]bool)
	}
	p.used[r][route] = true
	return r, func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		delete(p.used[r], route)
	}
}

// parseList reads the path of a list: /api/v1/namespaces/default/pods, after the path of the
// host.
func parseList(host, path string) (gvr schema.GroupVersionResource, namespace string, err error) {
	parts := strings.Split(strings.Trim(strings.TrimPrefix(path, strings.TrimSuffix(host, "/")), "/"), "/")
	switch {
	case len(parts) >= 3 && parts[0] == "api":
		gvr.Version, parts = parts[1], parts[2:]
	case len(parts) >= 4 && parts[0] == "apis":
		gvr.Group, gvr.Version, parts = parts[1], parts[2], parts[3:]
	}
	if len(parts) == 3 && parts[0] == "namespaces" {
		namespace, parts = parts[1], parts[2:]
	}
	if gvr.Version == "" || len(parts) != 1 || parts[0] == "" {
		return gvr, "", fmt.Errorf("%s is no list of a resource", path)
	}
	gvr.Resource = parts[0]
	return gvr, namespace, nil
}

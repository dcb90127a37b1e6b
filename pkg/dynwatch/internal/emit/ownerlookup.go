package emit

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/informd/informd/pkg/dynwatch/internal/frame"
	"github.com/informd/informd/pkg/dynwatch/internal/kube"
)

const (
	// maxKinds bounds the kinds that are known. An author of an object may name any kind as its
	// controller, and each new one costs requests to discovery.
	maxKinds = 200
	// grace is how old a kind that cannot be read must be before another one may take its place.
	grace = time.Minute
	// A failed look-up is followed by a pause, which grows. Otherwise each event would wait for an
	// API server that does not answer.
	firstPause   = time.Second
	longestPause = time.Minute
)

// kind is what owners are of. A version does not matter: a uid is the same in all of them.
type kind struct{ group, kind string }

// source is what is known about a kind.
type source struct {
	kind  kind
	began time.Time
	// resource is nil until discovery has named it.
	resource *resource
	// works: an owner was read once.
	works bool
	// failing are the pauses by scope: credentials can allow to read one namespace and not another.
	failing map[string]*failure
}

type resource struct {
	path       []string // of the version
	name       string
	namespaced bool
}

type failure struct {
	pause wait.Backoff
	until time.Time
}

// ask looks an owner up, until then, unless there is a pause. It returns false if it got no answer.
func (f *OwnerFinder) ask(ctx context.Context, until time.Time, scope string, key *ownerKey) (answer, bool) {
	s, r := f.source(key.kind, scope)
	left := time.Until(until)
	if s == nil || left <= 0 {
		return answer{}, false
	}
	limited, cancel := context.WithTimeout(ctx, left)
	defer cancel()
	found, err := f.lookUp(limited, s, r, key)
	// If the target stops, or the event had little time left, an error says nothing about the kind.
	if ctx.Err() == nil && (limited.Err() == nil || left >= f.Wait/2) {
		f.note(s, scope, err)
	}
	return found, err == nil
}

// source returns a kind, and its resource if that is known; nil if nothing may be asked now.
func (f *OwnerFinder) source(of kind, scope string) (*source, *resource) {
	f.mu.Lock()
	defer f.mu.Unlock()
	s := f.kinds[of]
	if s == nil {
		if len(f.kinds) >= maxKinds && !f.makeRoom() {
			if !f.full {
				f.logger.Warn("too many owner kinds; some owner chains are incomplete", "count", len(f.kinds), "kind", of.kind, "group", of.group)
			}
			f.full = true
			return nil, nil
		}
		s = &source{kind: of, began: time.Now(), failing: make(map[string]*failure)}
		f.kinds[of] = s
	}
	if failing := s.failing[scope]; failing != nil && time.Now().Before(failing.until) {
		return nil, nil
	}
	return s, s.resource
}

// makeRoom forgets a kind of which nothing could ever be read.
func (f *OwnerFinder) makeRoom() bool {
	for of, s := range f.kinds {
		if !s.works && time.Since(s.began) > grace {
			delete(f.kinds, of)
			return true
		}
	}
	return false
}

// lookUp reads an owner, and before that, from discovery, which resource has its kind.
func (f *OwnerFinder) lookUp(ctx context.Context, s *source, r *resource, key *ownerKey) (answer, error) {
	if r == nil {
		var err error
		if r, err = f.resolve(ctx, s.kind); err != nil {
			return answer{}, err
		}
		f.resolved(s, r)
	}
	if r.namespaced && key.namespace == "" {
		return answer{}, nil // what has no namespace has no controller in one
	}
	result := f.clients.Discovery.Client.Get().MaxRetries(0).AbsPath(r.path...).NamespaceIfScoped(key.namespace, r.namespaced).
		Resource(r.name).Name(key.name).SetHeader("Accept", frame.AcceptIdentity).Do(ctx)
	err := result.Error() // Raw knows no Status
	switch {
	case apierrors.IsNotFound(err) && !apierrors.HasStatusCause(err, metav1.CauseTypeUnexpectedServerResponse):
		return answer{}, nil
	case apierrors.IsNotFound(err): // the resource is not served there any more
		f.resolved(s, nil)
		return answer{}, err
	case err != nil:
		return answer{}, err
	}
	body, err := result.Raw()
	if err != nil {
		return answer{}, err
	}
	o, err := f.frames.Normalise(body)
	if _, bad := errors.AsType[*frame.Malformed](err); bad || o.UID != key.uid || o.Name != key.name {
		return answer{}, nil
	}
	return answer{above: o.Owner, there: true}, nil
}

// resolved sets the resource of a kind.
func (f *OwnerFinder) resolved(s *source, r *resource) {
	f.mu.Lock()
	defer f.mu.Unlock()
	s.resource = r
}

// resolve looks the resource of a kind up, in the version that the server prefers.
func (f *OwnerFinder) resolve(ctx context.Context, of kind) (*resource, error) {
	found, version, err := kube.FindResource(ctx, f.clients.Discovery, of.group, func(r *metav1.APIResource) bool {
		return r.Kind == of.kind && !strings.Contains(r.Name, "/") && slices.Contains(r.Verbs, "get")
	})
	switch {
	case err != nil:
		return nil, err
	case found == nil:
		return nil, fmt.Errorf("%w: the API server has no kind %q in group %q that can be read by name", kube.ErrNotServed, of.kind, of.group)
	}
	r := &resource{path: []string{"/apis", of.group, version}, name: found.Name, namespaced: found.Namespaced}
	if of.group == "" {
		r.path = []string{"/api", version}
	}
	return r, nil
}

// note notes how a look-up went.
func (f *OwnerFinder) note(s *source, scope string, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	logger := f.logger.With("kind", s.kind.kind, "group", s.kind.group)
	if scope != "" {
		logger = logger.With("namespace", scope)
	}
	failing := s.failing[scope]
	if err == nil {
		if s.works = true; failing != nil {
			delete(s.failing, scope)
			logger.Info("owner kind readable again")
		}
		return
	}
	if failing == nil {
		failing = &failure{pause: kube.Backoff(firstPause, longestPause)}
		s.failing[scope] = failing
		logger.Warn("owner kind unreadable; owner chains end there", "err", err, "next", "informd tries again; allow get on the kind if it is forbidden")
	}
	pause := failing.pause.Step()
	if asked, ok := kube.SuggestedDelay(err); ok {
		pause = max(pause, asked)
	}
	failing.until = time.Now().Add(pause)
}

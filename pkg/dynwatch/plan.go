package dynwatch

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
)

// Ready is the state of a target in a plan that nothing keeps from being watched.
const Ready State = "ready"

// TargetPlan is what watching one target would come to.
type TargetPlan struct {
	Name                                      string
	Group, Version, Resource, Kind, Namespace string
	Mode                                      Mode
	// State is [Ready], or the state that the target would be in now: [Waiting],
	// [Forbidden] or [Degraded].
	State State
	// Reason says why the state is what it is; of a target that is ready, what could
	// not be found out about it.
	Reason string
	// MissingVerbs are the verbs, of "list" and "watch", that the credentials do not
	// allow. It is also empty if the API server does not say.
	MissingVerbs []string
	// ResourceVersion is the revision of the list that the other numbers are from, 0
	// if there was none: they are not known then. It counts the changes of everything
	// that the API server stores, not of this resource alone.
	ResourceVersion uint64
	// Objects is how many objects there are. More: there are more, and the API server
	// tells their number in no other way than one by one.
	Objects int
	More    bool
	// Bytes estimates what a list of all objects has, by the mean size of a few.
	Bytes uint64
	// WatchFrom is the oldest revision from which a watch can begin, EtcdFrom about
	// the oldest one that etcd still has and never less; 0 is not known, and 1 the
	// beginning. How many revisions one can go back without a gap is the difference to
	// ResourceVersion.
	WatchFrom, EtcdFrom uint64
}

const (
	// plansAtOnce is how many targets are asked about at a time.
	plansAtOnce = 4
	// planTimeout bounds the asking about one target, greetTimeout the wait for the
	// first answer of the API server.
	planTimeout  = 30 * time.Second
	greetTimeout = 10 * time.Second
	// sampleSize is how many objects are read to know their size.
	sampleSize = 20
	// maxCounted bounds the counting of objects one by one.
	maxCounted = 5000
)

// planner asks what watching would come to.
type planner struct {
	clients *clients
	// counted is how many objects are counted one by one.
	counted int

	mu   sync.Mutex
	seen horizon // where etcd's history began for a resource that was asked about
}

// Plan asks the API server what watching the wanted set would come to, and returns
// that per target, sorted by name. It changes nothing, and asks little: about four
// targets at a time, of each for a few objects and, to know how far back one can go,
// some 25 times for one at older revisions. What is wrong with a target stands in its
// plan; the error is that the wanted set is not valid, that the API server cannot be
// reached or does not know the credentials, or that of ctx.
func Plan(ctx context.Context, kubernetes *rest.Config, wanted []Resource) ([]TargetPlan, error) {
	return plan(ctx, kubernetes, wanted, maxCounted)
}

func plan(ctx context.Context, kubernetes *rest.Config, wanted []Resource, counted int) ([]TargetPlan, error) {
	set, err := newWantedSet(wanted)
	if err != nil {
		return nil, fmt.Errorf("plan resources: %w", err)
	}
	c, err := newClients(kubernetes, slog.New(slog.DiscardHandler))
	if err != nil {
		return nil, fmt.Errorf("plan resources: %w", err)
	}
	defer c.close()
	p := &planner{clients: c, counted: counted}
	if err := p.greet(ctx); err != nil {
		return nil, err
	}
	targets := set.explicit
	if len(set.wildcards) > 0 {
		catalog, err := readCatalog(ctx, c, nil)
		if err != nil {
			return nil, fmt.Errorf("find what the wildcards match: %w", err)
		}
		for _, one := range set.choose(catalog) {
			for _, s := range one.wildcard.as(one.resource) {
				targets[s.name()] = s
			}
		}
	}
	names := slices.Sorted(maps.Keys(targets))
	plans := make([]TargetPlan, len(names))
	turns := make(chan struct{}, plansAtOnce)
	var all sync.WaitGroup
	for i, name := range names {
		turns <- struct{}{} // once ctx has ended, none is held for long
		all.Go(func() {
			defer func() { <-turns }()
			plans[i] = p.target(ctx, targets[name])
		})
	}
	all.Wait()
	return plans, ctx.Err()
}

// greet finds out whether there is an API server that knows the credentials. Whoever
// it is may not be allowed to know the version, or there may be none.
func (p *planner) greet(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, greetTimeout)
	defer cancel()
	_, err := p.clients.discovery.client.Get().MaxRetries(0).AbsPath("/version").DoRaw(ctx)
	if err == nil || apierrors.IsForbidden(err) || apierrors.IsNotFound(err) {
		return nil
	}
	return fmt.Errorf("ask the API server at %s: %w", p.clients.config.Host, err)
}

// target makes the plan of one target.
func (p *planner) target(ctx context.Context, s spec) TargetPlan {
	ctx, cancel := context.WithTimeout(ctx, planTimeout)
	defer cancel()
	t := TargetPlan{
		Name: s.name(), Group: s.group, Version: s.version, Resource: s.resource, Namespace: s.namespace,
		Mode: s.mode, State: Ready,
	}
	// An answer that does not come is no news: what is missing shows below.
	t.MissingVerbs, _ = missingVerbs(ctx, p.clients.discovery.client, s)
	err := p.look(ctx, s, &t)
	if err != nil {
		t.State, t.Reason = judge(err, false), err.Error()
	}
	if err != nil && errors.Is(ctx.Err(), context.DeadlineExceeded) {
		t.Reason = fmt.Sprintf("the API server has not answered everything within %v: %s", planTimeout, t.Reason)
	}
	return t
}

// look finds the resource, looks at its objects and then at its history. Its error is
// what would keep the target from being watched.
func (p *planner) look(ctx context.Context, s spec, t *TargetPlan) error {
	r, err := resolve(ctx, p.clients.discovery, s)
	if err != nil {
		return err
	}
	t.Version, t.Kind = r.gvr.Version, r.kind
	src, err := newSource(s, r, p.clients, make([]byte, minKey), nil) // what is read goes nowhere
	if err != nil {
		return err
	}
	one, err := p.sample(ctx, src, t)
	if err != nil {
		return err
	}
	if one.Metadata.Name == "" {
		one.Metadata.Name = "none"
		if one.Metadata.Namespace = s.namespace; one.Metadata.Namespace == "" && r.namespaced {
			one.Metadata.Namespace = metav1.NamespaceDefault
		}
	}
	err = p.reach(ctx, src, one, t)
	if err != nil && !apierrors.IsForbidden(err) {
		t.Reason = "how far back one can go is not known: " + err.Error()
		return nil
	}
	return err
}

// identity is what is read of an object to look it up.
type identity struct {
	Metadata struct{ Namespace, Name string }
}

// sample counts the objects and weighs a few of them. It returns the identity of one,
// empty if there is none.
func (p *planner) sample(ctx context.Context, src *source, t *TargetPlan) (one identity, err error) {
	o := metav1.ListOptions{Limit: sampleSize, LabelSelector: src.spec.labelSelector, FieldSelector: src.spec.fieldSelector}
	objects, bytes := 0, 0
	meta, err := src.readList(ctx, src.bytes, src.spec.namespace, o, func(raw []byte) error {
		if objects == 0 {
			_ = json.Unmarshal(raw, &one) // of one that is not readable nothing is known
		}
		objects++
		bytes += len(raw)
		return nil
	})
	if err != nil {
		return one, fmt.Errorf("list: %w", err)
	}
	t.ResourceVersion = meta.ResourceVersion
	t.Objects = objects + int(max(meta.RemainingItems, 0))
	if meta.Continue != "" && meta.RemainingItems == 0 {
		// With a selector the API server does not say how many follow.
		if t.Objects, t.More, err = p.count(ctx, src); err != nil {
			return one, err
		}
	}
	if objects > 0 {
		t.Bytes = uint64(float64(bytes) / float64(objects) * float64(t.Objects))
	}
	return one, nil
}

// errEnough ends a list of which enough has been seen.
var errEnough = errors.New("enough")

// count counts objects one by one, and reports whether there are more.
func (p *planner) count(ctx context.Context, src *source) (objects int, more bool, err error) {
	_, err = src.listMetadata(ctx, 0, func(*metav1.PartialObjectMetadata) error {
		if objects == p.counted {
			return errEnough
		}
		objects++
		return nil
	})
	if errors.Is(err, errEnough) {
		return objects, true, nil
	}
	return objects, false, err
}

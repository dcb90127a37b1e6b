package informer_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"

	"github.com/informd/informd/pkg/informer"
)

// reconciled is what a function of a test did.
type reconciled struct{ recorder }

func (r *reconciled) count(call string) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(slices.DeleteFunc(slices.Clone(r.calls), func(c string) bool { return c != call }))
}

func (r *reconciled) clear() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.calls = nil
}

// wants waits until each of the calls was seen, in any order.
func (r *reconciled) wants(t *testing.T, calls ...string) {
	t.Helper()
	for _, call := range calls {
		eventually(t, call, func() bool { return r.count(call) > 0 })
	}
}

// keys returns a function that writes down its keys.
func (r *reconciled) keys() informer.ReconcileFunc {
	return func(_ context.Context, key types.NamespacedName) (informer.Result, error) {
		r.add(key.String())
		return informer.Result{}, nil
	}
}

func newReconciler(t *testing.T, f *informer.Factory, gvr schema.GroupVersionResource, reconcile informer.ReconcileFunc, o informer.ReconcilerOptions) *informer.Reconciler {
	t.Helper()
	if o.RateLimiter == nil {
		o.RateLimiter = workqueue.NewTypedItemExponentialFailureRateLimiter[types.NamespacedName](time.Millisecond, 10*time.Millisecond)
	}
	r, err := informer.NewReconciler(f, gvr, reconcile, o)
	must(t, err)
	return r
}

// begin runs a reconciler until the test or stop ends it. Run must return nil then.
func begin(t *testing.T, r *informer.Reconciler) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- r.Run(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := returned(t, ended); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(stop)
	return stop
}

func returned(t *testing.T, ended <-chan error) error {
	t.Helper()
	select {
	case err := <-ended:
		return err
	case <-time.After(patience):
		t.Error("Run has not returned")
		return nil
	}
}

func TestReconcileEachState(t *testing.T) {
	api := newFakeAPI(t)
	api.put("configmaps", "a", "one", map[string]any{"data": map[string]any{"v": "1"}})
	api.put("configmaps", "b", "two", map[string]any{"data": map[string]any{"v": "1"}})
	factory, start := newFactory(t, api, informer.Options{})
	var seen reconciled
	lister := factory.ForResource(configs()).Lister()
	begun := newReconciler(t, factory, configs(), func(_ context.Context, key types.NamespacedName) (informer.Result, error) {
		o, err := lister.ByNamespace(key.Namespace).Get(key.Name)
		switch {
		case apierrors.IsNotFound(err):
			seen.add(key.String() + " missing")
		case err != nil:
			return informer.Result{}, err
		default:
			seen.add(key.String() + " " + o.(metav1.Object).GetResourceVersion()) //nolint:forcetypeassert // a panic is an error
		}
		return informer.Result{}, nil
	}, informer.ReconcilerOptions{})
	start()
	begin(t, begun)
	seen.wants(t, "a/one 101", "b/two 102")
	api.put("configmaps", "a", "one", map[string]any{"data": map[string]any{"v": "2"}})
	seen.wants(t, "a/one 103")
	api.delete("configmaps", "b", "two")
	seen.wants(t, "b/two missing")
	api.put("configmaps", "b", "two", nil)
	seen.wants(t, "b/two 105")
	if s := begun.Stats(); s.Calls < 5 || s.Errors+s.Panics+s.GaveUp != 0 {
		t.Errorf("stats %+v", s)
	}
}

// logs is where loggers of several goroutines write.
type logs struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *logs) Write(line []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(line)
}

func (l *logs) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// TestRetries: a key fails twice; another one always, until its reconciler gives up; a third panics once,
// as does the hook.
func TestRetries(t *testing.T) {
	api := newFakeAPI(t)
	for _, name := range []string{"twice", "always", "panics"} {
		api.put("configmaps", "a", name, nil)
	}
	var log logs
	factory, start := newFactory(t, api, informer.Options{Logger: slog.New(slog.NewTextHandler(&log, nil))})
	var seen, gaveUp reconciled
	failed := errors.New("no")
	r := newReconciler(t, factory, configs(), func(_ context.Context, key types.NamespacedName) (informer.Result, error) {
		seen.add(key.Name)
		switch n := seen.count(key.Name); {
		case key.Name == "always", key.Name == "twice" && n <= 2:
			return informer.Result{RequeueAfter: time.Nanosecond}, failed // the time is ignored
		case key.Name == "panics" && n == 1:
			panic("nil map")
		}
		return informer.Result{}, nil
	}, informer.ReconcilerOptions{MaxRetries: 3, GaveUp: func(_ context.Context, key types.NamespacedName, err error) {
		gaveUp.add(fmt.Sprint(key, " ", errors.Is(err, failed)))
		panic("in the hook")
	}})
	start()
	begin(t, r)
	done := func(want informer.ReconcilerStats) {
		t.Helper()
		eventually(t, fmt.Sprintf("stats %+v", want), func() bool { return r.Stats() == want })
	}
	// 3 calls of twice, 4 of always, 2 of panics; the hook panics, too.
	done(informer.ReconcilerStats{Calls: 9, Errors: 7, Panics: 2, GaveUp: 1})
	api.put("configmaps", "a", "always", map[string]any{"data": nil})
	done(informer.ReconcilerStats{Calls: 13, Errors: 11, Panics: 3, GaveUp: 2})
	if n := gaveUp.count("a/always true"); n != 2 {
		t.Errorf("gave up %d times with the error, want 2", n)
	}
	for part, want := range map[string]int{
		"level=ERROR msg=\"reconciler panicked": 3, "level=WARN msg=\"reconcile failed; retrying\"": 9,
		"level=ERROR msg=\"reconcile failed; waiting for the next change of the object\"": 2, "key=a/panics": 2, "nil map": 2,
	} {
		if n := strings.Count(log.String(), part); n < want {
			t.Errorf("the log has %q %d times, want %d:\n%s", part, n, want, log.String())
		}
	}
}

// TestChangeDuringACall: one worker waits in a call, its key changes, and another worker is free.
func TestChangeDuringACall(t *testing.T) {
	api := newFakeAPI(t)
	api.put("configmaps", "a", "one", nil)
	factory, start := newFactory(t, api, informer.Options{})
	var seen reconciled
	var busy atomic.Int32
	later := make(chan struct{})
	r := newReconciler(t, factory, configs(), func(ctx context.Context, key types.NamespacedName) (informer.Result, error) {
		if key.Name == "later" {
			close(later)
			return informer.Result{}, nil
		}
		if busy.Add(1) > 1 {
			t.Error("two calls of one key at a time")
		}
		defer busy.Add(-1)
		if seen.add(key.String()); seen.count("a/one") > 1 {
			return informer.Result{}, nil
		}
		api.put("configmaps", "a", "one", map[string]any{"data": nil})
		api.put("configmaps", "a", "later", nil) // its call follows that of the change, if that waits in the queue
		select {
		case <-later:
		case <-ctx.Done():
		}
		return informer.Result{}, nil
	}, informer.ReconcilerOptions{Workers: 2})
	start()
	begin(t, r)
	eventually(t, "a call for the change", func() bool { return seen.count("a/one") == 2 })
}

// TestManyWorkers: the race detector finds overlapping calls of one key, which share a counter
// without a lock. Calls of different keys do overlap.
func TestManyWorkers(t *testing.T) {
	const workers = 4
	api := newFakeAPI(t)
	counters, overlap := make(map[string]*int), make(chan struct{})
	var inside atomic.Int32
	for n := range workers {
		name := fmt.Sprint("c", n)
		counters[name] = new(int)
		api.put("configmaps", "a", name, nil)
	}
	factory, start := newFactory(t, api, informer.Options{})
	r := newReconciler(t, factory, configs(), func(ctx context.Context, key types.NamespacedName) (informer.Result, error) {
		counter := counters[key.Name]
		if *counter++; *counter == 1 {
			if inside.Add(1) == workers {
				close(overlap)
			}
			select {
			case <-overlap:
			case <-ctx.Done():
			}
		}
		if key.Name == "c0" {
			return informer.Result{}, errors.New("again") // retries compete with changes
		}
		return informer.Result{RequeueAfter: time.Microsecond}, nil
	}, informer.ReconcilerOptions{Workers: workers})
	start()
	stop := begin(t, r)
	select {
	case <-overlap:
	case <-time.After(patience):
		t.Fatal("the workers do not call the function side by side")
	}
	for n := range 200 {
		api.put("configmaps", "a", fmt.Sprint("c", n%workers), map[string]any{"data": map[string]any{"n": fmt.Sprint(n)}})
	}
	eventually(t, "500 calls", func() bool { return r.Stats().Calls >= 500 })
	stop()
	sum := 0
	for _, n := range counters {
		sum += *n
	}
	if calls := r.Stats().Calls; uint64(sum) != calls {
		t.Errorf("%d calls were counted without a lock, %d with", sum, calls)
	}
}

func ownedBy(apiVersion, kind, name string, controls bool) map[string]any {
	return map[string]any{"metadata": map[string]any{"ownerReferences": []any{
		map[string]any{"apiVersion": "example.com/v1", "kind": "Other", "name": "other", "uid": "u0", "controller": false},
		map[string]any{"apiVersion": apiVersion, "kind": kind, "name": name, "uid": "u1", "controller": controls},
	}}}
}

func TestOwnedObjects(t *testing.T) {
	for mode, metadata := range map[string]bool{"full": false, "metadata": true} {
		t.Run(mode, func(t *testing.T) {
			api := newFakeAPI(t)
			factory, start := newFactory(t, api, informer.Options{})
			var seen reconciled
			r := newReconciler(t, factory, configs(), seen.keys(), informer.ReconcilerOptions{
				Owned:     []informer.Owned{{Resource: pods(), Metadata: metadata}, {Resource: secrets()}},
				OwnerKind: schema.GroupKind{Kind: "ConfigMap"}, Metadata: metadata,
			})
			api.put("pods", "a", "early", ownedBy("v1", "ConfigMap", "early-owner", true))
			start()
			begin(t, r)
			seen.wants(t, "a/early-owner") // which does not exist
			api.put("pods", "a", "p1", ownedBy("v1", "ConfigMap", "no-controller", false))
			api.put("pods", "a", "p2", ownedBy("v1", "Secret", "other-kind", true))
			api.put("pods", "a", "p3", ownedBy("apps/v1", "ConfigMap", "other-group", true))
			api.put("pods", "a", "p4", nil)
			api.put("pods", "b", "p5", ownedBy("v1", "ConfigMap", "first", true))
			seen.wants(t, "b/first")
			api.put("secrets", "b", "s", ownedBy("v1", "ConfigMap", "of-secret", true))
			seen.wants(t, "b/of-secret")
			seen.clear()
			api.put("pods", "b", "p5", ownedBy("v1", "ConfigMap", "second", true))
			seen.wants(t, "b/first", "b/second")
			seen.clear()
			api.delete("pods", "b", "p5")
			seen.wants(t, "b/second")
			if calls := r.Stats().Calls; calls != 6 {
				t.Errorf("%d calls, want 6: other owners are reconciled", calls)
			}
			seen.clear()
			api.lose("pods", "a", "early")
			seen.wants(t, "a/early-owner")
		})
	}
}

func TestOwnerWithoutNamespace(t *testing.T) {
	api := newFakeAPI(t)
	api.put("namespaces", "", "one", nil)
	factory, start := newFactory(t, api, informer.Options{})
	var seen reconciled
	r := newReconciler(t, factory, core("namespaces"), seen.keys(), informer.ReconcilerOptions{
		Owned: []informer.Owned{{Resource: pods()}}, OwnerKind: schema.GroupKind{Kind: "Namespace"}, ClusterWide: true,
	})
	start()
	begin(t, r)
	seen.wants(t, "/one")
	// What a function does with its key.
	if o, found, err := factory.ForResource(core("namespaces")).Informer().GetStore().GetByKey("/one"); err != nil || !found || nameOf(o) != "one" {
		t.Errorf("the object of the key: %v, %t, %v", o, found, err)
	}
	if o, err := factory.ForResource(core("namespaces")).Lister().Get("one"); err != nil || nameOf(o) != "one" {
		t.Errorf("the object of the lister: %v, %v", o, err)
	}
	seen.clear()
	api.put("pods", "a", "p", ownedBy("v1", "Namespace", "one", true))
	seen.wants(t, "/one")
}

// TestRunOfAnImpossibleInformer: a watch that cannot start ends Run with an error.
func TestRunOfAnImpossibleInformer(t *testing.T) {
	api := newFakeAPI(t)
	factory, _ := newFactory(t, api, informer.Options{})
	other := pods()
	other.Version = "v2" // of the two versions only one is watched
	var seen reconciled
	all := []*informer.Reconciler{
		newReconciler(t, factory, pods(), seen.keys(), informer.ReconcilerOptions{}),
		newReconciler(t, factory, other, seen.keys(), informer.ReconcilerOptions{}),
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	factory.Start(ctx.Done())
	ended := make(chan error, len(all))
	for _, r := range all {
		go func() { ended <- r.Run(ctx) }()
	}
	if err := <-ended; err == nil || ctx.Err() != nil {
		t.Errorf("Run returns %v", err)
	}
	cancel()
	if err := <-ended; err != nil {
		t.Errorf("the other Run returns %v", err)
	}
}

func TestRequeueAfterAndResyncPeriod(t *testing.T) {
	api := newFakeAPI(t)
	api.put("configmaps", "a", "one", nil)
	api.put("pods", "a", "one", ownedBy("v1", "Secret", "owner", true))
	factory, start := newFactory(t, api, informer.Options{DefaultResync: 10 * time.Millisecond})
	var requeued, resynced, hours, owners reconciled
	again := newReconciler(t, factory, configs(), func(_ context.Context, key types.NamespacedName) (informer.Result, error) {
		requeued.add(key.String())
		return informer.Result{RequeueAfter: 5 * time.Millisecond}, nil
	}, informer.ReconcilerOptions{ResyncPeriod: time.Hour})
	hourly := newReconciler(t, factory, configs(), hours.keys(), informer.ReconcilerOptions{ResyncPeriod: time.Hour})
	period := newReconciler(t, factory, configs(), resynced.keys(), informer.ReconcilerOptions{})
	owned := newReconciler(t, factory, secrets(), owners.keys(), informer.ReconcilerOptions{
		Owned: []informer.Owned{{Resource: pods()}}, OwnerKind: schema.GroupKind{Kind: "Secret"},
	})
	start()
	for _, r := range []*informer.Reconciler{again, hourly, period, owned} {
		begin(t, r)
	}
	owners.wants(t, "a/owner")
	eventually(t, "three calls for the result", func() bool { return requeued.count("a/one") >= 3 })
	eventually(t, "three calls for the period", func() bool { return resynced.count("a/one") >= 3 })
	hours.wants(t, "a/one")
	if h, o := hours.count("a/one"), owners.count("a/owner"); h != 1 || o != 1 {
		t.Errorf("%d calls with a period of one hour, and %d for an owned object without a change, want 1", h, o)
	}
}

// TestRunEnds: Run waits for the function, drops waiting keys, and leaves no goroutine. A second
// Run begins with all objects.
func TestRunEnds(t *testing.T) {
	api := newFakeAPI(t)
	api.put("configmaps", "a", "one", nil)
	api.put("configmaps", "a", "two", nil)
	factory, start := newFactory(t, api, informer.Options{})
	var seen, gaveUp reconciled
	var second, through atomic.Bool
	r := newReconciler(t, factory, configs(), func(ctx context.Context, key types.NamespacedName) (informer.Result, error) {
		seen.add(key.String())
		if second.Load() {
			return informer.Result{}, nil
		}
		<-ctx.Done()
		<-time.After(20 * time.Millisecond) // a function that ends late
		through.Store(true)
		return informer.Result{}, ctx.Err()
	}, informer.ReconcilerOptions{MaxRetries: 1, GaveUp: func(_ context.Context, key types.NamespacedName, _ error) { gaveUp.add(key.String()) }})
	if err := r.Run(t.Context()); err == nil || !strings.Contains(err.Error(), "call Factory.Start") {
		t.Errorf("error %v, want one that names Start", err)
	}
	start()
	ignore := goleak.IgnoreCurrent()
	stop := begin(t, r)
	eventually(t, "the first call", func() bool { return r.Stats().Calls == 1 })
	if err := r.Run(t.Context()); err == nil || !strings.Contains(err.Error(), "runs already") {
		t.Errorf("error %v of a second Run, want one that says so", err)
	}
	stop()
	if !through.Load() {
		t.Error("Run has not waited for the function")
	}
	eventually(t, "no goroutine of Run is left", func() bool {
		err := goleak.Find(ignore) // also those of the watches, which continue
		return err == nil || !strings.Contains(err.Error(), "workqueue.") && !strings.Contains(err.Error(), "informer.(*Reconciler)") &&
			!strings.Contains(err.Error(), "informer.(*registration)")
	})
	if s := r.Stats(); s.Calls != 1 || gaveUp.count("a/one")+gaveUp.count("a/two") != 0 {
		t.Errorf("stats %+v: the end of ctx is no failure, and no call begins after it", s)
	}
	second.Store(true)
	seen.clear()
	begin(t, r)
	seen.wants(t, "a/one", "a/two")
}

func TestRunOfAnInformerThatEnds(t *testing.T) {
	api := newFakeAPI(t)
	factory, start := newFactory(t, api, informer.Options{})
	var seen reconciled
	r := newReconciler(t, factory, configs(), seen.keys(), informer.ReconcilerOptions{
		Owned: []informer.Owned{{Resource: pods()}}, OwnerKind: schema.GroupKind{Kind: "ConfigMap"},
	})
	start()
	ended := make(chan error, 1)
	go func() { ended <- r.Run(t.Context()) }()
	api.put("configmaps", "a", "one", nil)
	seen.wants(t, "a/one")
	factory.Stop(pods())
	if err := returned(t, ended); err == nil || !strings.Contains(err.Error(), "has ended") {
		t.Errorf("error %v, want one that names the informer", err)
	}
	over, cancel := context.WithCancel(t.Context())
	cancel()
	if err := r.Run(over); err != nil {
		t.Errorf("error %v after the end of ctx, which ends informers, too", err)
	}
}

// TestRunWaitsForCaches: without permission to list an owned resource nothing is reconciled.
func TestRunWaitsForCaches(t *testing.T) {
	api := newFakeAPI(t)
	allow := api.denySecrets()
	api.put("configmaps", "a", "one", nil)
	factory, _ := newFactory(t, api, informer.Options{})
	var seen reconciled
	r := newReconciler(t, factory, configs(), seen.keys(), informer.ReconcilerOptions{
		Owned: []informer.Owned{{Resource: secrets()}}, OwnerKind: schema.GroupKind{Kind: "ConfigMap"},
	})
	stop := make(chan struct{})
	t.Cleanup(func() { close(stop); factory.Shutdown() })
	factory.Start(stop)
	end := begin(t, r)
	eventually(t, "the ConfigMap is in its cache", factory.ForResource(configs()).Informer().HasSynced)
	end()
	if s := r.Stats(); s != (informer.ReconcilerStats{}) {
		t.Errorf("stats %+v, want none before all caches have synced", s)
	}
	allow()
	begin(t, r)
	seen.wants(t, "a/one")
}

func TestNewReconcilerChecksItsArguments(t *testing.T) {
	factory, _ := newFactory(t, newFakeAPI(t), informer.Options{})
	var seen reconciled
	for name, c := range map[string]struct {
		factory   *informer.Factory
		gvr       schema.GroupVersionResource
		reconcile informer.ReconcileFunc
		o         informer.ReconcilerOptions
		want      string
	}{
		"no factory":  {gvr: pods(), reconcile: seen.keys(), want: "a Factory"},
		"no function": {factory: factory, gvr: pods(), want: "a ReconcileFunc"},
		"no resource": {factory: factory, reconcile: seen.keys(), want: "needs a version"},
		"no kind":     {factory: factory, gvr: configs(), reconcile: seen.keys(), o: informer.ReconcilerOptions{Owned: []informer.Owned{{Resource: pods()}}}, want: "requires OwnerKind"},
		"no owned resource": {
			factory: factory, gvr: configs(), reconcile: seen.keys(), want: "needs a version",
			o: informer.ReconcilerOptions{Owned: []informer.Owned{{}}, OwnerKind: schema.GroupKind{Kind: "ConfigMap"}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := informer.NewReconciler(c.factory, c.gvr, c.reconcile, c.o); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v, want %q", err, c.want)
			}
		})
	}
}

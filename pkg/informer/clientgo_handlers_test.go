package informer_test

import (
	"bytes"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/cache"
)

// clientGoHandlers are the tests of shared_informer_test.go about handlers.
func clientGoHandlers() map[string]func(*testing.T) {
	return map[string]func(*testing.T){
		"TestListenerResyncPeriods":                        listenerResyncPeriods,
		"TestSharedInformerRemoveHandler":                  removeHandler,
		"TestSharedInformerRemoveForeignHandler":           removeForeignHandler,
		"TestSharedInformerMultipleRegistration":           multipleRegistration,
		"TestRemovingRemovedSharedInformer":                removingRemoved,
		"TestSharedInformerHandlerAbuse":                   handlerAbuse,
		"TestRemoveWhileActive":                            removeWhileActive,
		"TestAddWhileActive":                               addWhileActive,
		"TestEventPanics":                                  eventPanics,
		"TestRemoveEventHandler_AsynchronousPanic":         removeOfABlockedHandler,
		"TestRemoveEventHandler_SynchronousShutdown":       synchronousShutdown,
		"TestShutDownEventHandler_Lifecycles":              shutDownLifecycles,
		"TestTypedSharedIndexInformerAddTypedEventHandler": typedHandler,
	}
}

// listenerResyncPeriods expects that each handler has its period, and none without one.
func listenerResyncPeriods(t *testing.T) {
	const period, rounds = 20 * time.Millisecond, 10
	p := newPodInformer(t, time.Hour, "pod1", "pod2")
	var never, often, rarely recorder
	began := time.Now()
	for h, period := range map[*recorder]time.Duration{&never: 0, &often: period, &rarely: time.Hour} {
		if _, err := p.AddEventHandlerWithResyncPeriod(h, period); err != nil {
			t.Fatal(err)
		}
	}
	p.start(t)
	const adds, updates = "add pod1 true, add pod2 true", ", update pod1, update pod2"
	eventually(t, "resyncs", func() bool {
		return strings.HasPrefix(often.String(), adds+strings.Repeat(updates, rounds))
	})
	if took := time.Since(began); took < rounds*period {
		t.Errorf("%d resyncs took %v, want at least %v", rounds, took, rounds*period)
	}
	never.wants(t, adds)
	rarely.wants(t, adds)
}

func removeHandler(t *testing.T) {
	p := newPodInformer(t, 0)
	var first, second recorder
	one, two := handle(t, p, &first), handle(t, p, &second)
	if err := p.RemoveEventHandler(two); err != nil {
		t.Error(err)
	}
	p.sync(t)
	p.registered(t, "pod1", map[*recorder]bool{&first: true, &second: false})
	if err := p.RemoveEventHandler(one); err != nil {
		t.Error(err)
	}
	p.registered(t, "pod2", map[*recorder]bool{&first: false, &second: false})
}

func removeForeignHandler(t *testing.T) {
	p, other := newPodInformer(t, 0), newPodInformer(t, 0)
	var first, second recorder
	one, two := handle(t, p, &first), handle(t, p, &second)
	if err := other.RemoveEventHandler(one); err != nil {
		t.Error(err)
	}
	p.sync(t)
	p.registered(t, "pod1", map[*recorder]bool{&first: true, &second: true})
	for _, r := range []cache.ResourceEventHandlerRegistration{one, two} {
		if err := p.RemoveEventHandler(r); err != nil {
			t.Error(err)
		}
	}
	p.registered(t, "pod2", map[*recorder]bool{&first: false, &second: false})
}

func multipleRegistration(t *testing.T) {
	p := newPodInformer(t, 0)
	var h recorder
	one, two := handle(t, p, &h), handle(t, p, &h)
	p.sync(t)
	calls := func(name string) int { return strings.Count(h.String(), "add "+name) }
	p.api.put("pods", "a", "pod1", nil)
	eventually(t, "two calls", func() bool { return calls("pod1") == 2 })
	if err := p.RemoveEventHandler(one); err != nil {
		t.Error(err)
	}
	p.registered(t, "pod2", map[*recorder]bool{&h: true})
	if err := p.RemoveEventHandler(two); err != nil {
		t.Error(err)
	}
	p.registered(t, "pod3", map[*recorder]bool{&h: false})
	if n := calls("pod2"); n != 1 {
		t.Errorf("%d calls for pod2, want 1", n)
	}
}

func removingRemoved(t *testing.T) {
	p := newPodInformer(t, 0)
	r := handle(t, p, nothing())
	for range 2 {
		if err := p.RemoveEventHandler(r); err != nil {
			t.Error(err)
		}
	}
}

// handlerAbuse adds and removes handlers while objects change and the informer ends.
func handlerAbuse(t *testing.T) {
	p := newPodInformer(t, time.Second)
	p.start(t)
	var workers sync.WaitGroup
	for range 10 {
		workers.Go(func() {
			var all []cache.ResourceEventHandlerRegistration
			for {
				if len(all) == 0 || rand.IntN(2) == 0 {
					r, err := p.AddEventHandlerWithResyncPeriod(nothing(), time.Second)
					if err != nil {
						if !strings.Contains(err.Error(), "stopped already") {
							t.Error(err)
						}
						return
					}
					all = append(all, r)
					continue
				}
				at := rand.IntN(len(all))
				if err := p.RemoveEventHandler(all[at]); err != nil {
					t.Error(err)
				}
				all = slices.Delete(all, at, at+1)
			}
		})
	}
	exists := make(map[string]bool)
	for range 500 {
		if name := "pod" + strconv.Itoa(rand.IntN(20)); exists[name] && rand.IntN(3) == 0 {
			p.api.delete("pods", "a", name)
			exists[name] = false
		} else {
			p.api.put("pods", "a", name, nil)
			exists[name] = true
		}
	}
	p.end()
	workers.Wait()
}

func removeWhileActive(t *testing.T) {
	p := newPodInformer(t, 0)
	var h recorder
	r := handle(t, p, &h)
	p.sync(t)
	p.registered(t, "pod1", map[*recorder]bool{&h: true})
	if err := p.RemoveEventHandler(r); err != nil {
		t.Error(err)
	}
	p.registered(t, "pod2", map[*recorder]bool{&h: false})
	h.wants(t, "add pod1 false")
}

// blocking is a handler whose first call waits until it is let go.
type blocking struct {
	recorder

	once          sync.Once
	called, letGo chan struct{}
}

func newBlocking() *blocking {
	return &blocking{called: make(chan struct{}), letGo: make(chan struct{})}
}

func (b *blocking) OnAdd(o any, initial bool) {
	b.once.Do(func() {
		close(b.called)
		<-b.letGo
	})
	b.recorder.OnAdd(o, initial)
}

func addWhileActive(t *testing.T) {
	p := newPodInformer(t, 0)
	var first recorder
	one := handle(t, p, &first)
	if one.HasSynced() {
		t.Error("synced before Run")
	}
	p.sync(t)
	p.api.put("pods", "a", "pod1", nil)
	first.wants(t, "add pod1 false")
	wait(t, "the handler is synced", one.HasSyncedChecker().Done())
	if !one.HasSynced() {
		t.Error("the checker is done, but the handler is not synced")
	}
	second := newBlocking()
	two := handle(t, p, second)
	wait(t, "the second handler is called", second.called)
	if two.HasSynced() {
		t.Error("synced before the handler had its first object")
	}
	close(second.letGo)
	p.api.put("pods", "a", "pod2", nil)
	second.wants(t, "add pod1 true", "add pod2 false")
	if !two.HasSynced() {
		t.Error("not synced after all objects")
	}
	first.wants(t, "add pod1 false", "add pod2 false")
}

// eventPanics expects that each panic is logged by the logger of its handler.
func eventPanics(t *testing.T) {
	p := newPodInformer(t, 0, "pod1", "pod2", "pod3", "pod4", "pod5")
	faulty := cache.ResourceEventHandlerFuncs{AddFunc: func(any) { panic("fake panic") }}
	var outputs [2]bytes.Buffer
	var handles [2]cache.ResourceEventHandlerRegistration
	for n := range outputs {
		logger := logr.FromSlogHandler(slog.NewTextHandler(&outputs[n], nil)).WithValues("handler", n)
		r, err := p.AddEventHandlerWithOptions(faulty, cache.HandlerOptions{Logger: &logger})
		must(t, err)
		handles[n] = r
	}
	p.sync(t)
	for n, r := range handles {
		wait(t, "the handler is synced after its panics", r.HasSyncedChecker().Done())
		output := outputs[n].String()
		if logged := strings.Count(output, `panic="fake panic"`); logged != 5 || strings.Count(output, "handler="+strconv.Itoa(n)) != 5 {
			t.Errorf("%d panics in the log, want 5:\n%s", logged, output)
		}
		if !strings.Contains(output, "clientgo_handlers_test.go") {
			t.Errorf("the log does not name the place of the panic:\n%s", output)
		}
	}
}

// removeOfABlockedHandler expects that the removal does not wait for the call.
func removeOfABlockedHandler(t *testing.T) {
	p := newPodInformer(t, 0)
	p.sync(t)
	h := newBlocking()
	r := handle(t, p, h)
	p.api.put("pods", "a", "pod1", nil)
	wait(t, "the handler is called", h.called)
	must(t, p.RemoveEventHandler(r))
	p.registered(t, "pod2", nil)
	close(h.letGo)
	h.wants(t, "add pod1 false")
}

// synchronousShutdown expects that the handler is not called any more after its end.
func synchronousShutdown(t *testing.T) {
	p := newPodInformer(t, 0)
	p.sync(t)
	h := newBlocking()
	r := handle(t, p, h)
	p.api.put("pods", "a", "pod1", nil)
	wait(t, "the handler is called", h.called)
	ended := make(chan error)
	go func() { ended <- cache.ShutDownEventHandler(p, r) }()
	select {
	case err := <-ended:
		t.Fatalf("the shutdown did not wait for the call (%v)", err)
	case <-time.After(20 * time.Millisecond):
	}
	close(h.letGo)
	must(t, <-ended)
	if got := h.String(); got != "add pod1 false" {
		t.Errorf("calls %q, want one, which had returned", got)
	}
}

func shutDownLifecycles(t *testing.T) {
	shutDown := func(t *testing.T, p *podInformer, r cache.ResourceEventHandlerRegistration) {
		t.Helper()
		for range 2 {
			if err := cache.ShutDownEventHandler(p, r); err != nil {
				t.Error(err)
			}
		}
	}
	t.Run("InformerNeverStarted", func(t *testing.T) {
		p := newPodInformer(t, 0)
		shutDown(t, p, handle(t, p, nothing()))
	})
	t.Run("StartedThenAddedThenShutDown", func(t *testing.T) {
		p := newPodInformer(t, 0)
		p.sync(t)
		shutDown(t, p, handle(t, p, nothing()))
	})
	t.Run("AddedThenStartedThenShutDown", func(t *testing.T) {
		p := newPodInformer(t, 0)
		r := handle(t, p, nothing())
		p.sync(t)
		shutDown(t, p, r)
	})
	t.Run("AddedThenEndedThenShutDown", func(t *testing.T) { // client-go has no test of it
		p := newPodInformer(t, 0)
		r := handle(t, p, nothing())
		p.sync(t)
		p.end()
		shutDown(t, p, r)
	})
}

// typedHandler puts client-go's typed informer over one of this package.
func typedHandler(t *testing.T) {
	p := newPodInformer(t, 0, "pod1")
	typed := cache.NewTypedSharedIndexInformer[*corev1.Pod](p)
	var added, deleted atomic.Pointer[corev1.Pod]
	if _, err := typed.AddTypedEventHandler(cache.TypedResourceEventHandlerFuncs[*corev1.Pod]{
		AddFunc:    func(pod *corev1.Pod) { added.Store(pod) },
		DeleteFunc: func(of cache.DeletedObject[*corev1.Pod]) { deleted.Store(of.OptionalObj) },
	}); err != nil {
		t.Fatal(err)
	}
	p.sync(t)
	p.api.delete("pods", "a", "pod1")
	eventually(t, "the deletion", func() bool { return deleted.Load() != nil })
	if a, d := added.Load(), deleted.Load(); a.Name != "pod1" || d.Name != "pod1" || a.ResourceVersion >= d.ResourceVersion {
		t.Errorf("added %v, deleted %v", a, d)
	}
}

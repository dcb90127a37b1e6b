package informer_test

import (
	"bytes"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/client-go/tools/cache"
)

// clientGoHandlers are the tests of shared_informer_test.go about handlers. registrations is those of
// TestSharedInformerRemoveHandler, TestSharedInformerRemoveForeignHandler and TestRemoveWhileActive as well,
// eventPanics that of TestPanicPropagated, removeOfBlockedHandlers that of
// TestRemoveEventHandler_AsynchronousPanic, and lifecycles those of TestRemovingRemovedSharedInformer,
// TestRemoveOnStoppedSharedInformer and TestShutdown.
func clientGoHandlers() map[string]func(*testing.T) {
	return map[string]func(*testing.T){
		"TestListenerResyncPeriods":                  listenerResyncPeriods,
		"TestSharedInformerMultipleRegistration":     registrations,
		"TestSharedInformerHandlerAbuse":             handlerAbuse,
		"TestAddWhileActive":                         addWhileActive,
		"TestEventPanics":                            eventPanics,
		"TestRemoveEventHandler_SynchronousShutdown": removeOfBlockedHandlers,
		"TestShutDownEventHandler_Lifecycles":        lifecycles,
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

// registrations adds one handler once, another one twice, and removes one registration after another.
func registrations(t *testing.T) {
	p, other := newPodInformer(t, 0), newPodInformer(t, 0)
	var never, once, twice recorder
	early, one, first, second := handle(t, p, &never), handle(t, p, &once), handle(t, p, &twice), handle(t, p, &twice)
	must(t, p.RemoveEventHandler(early))
	must(t, other.RemoveEventHandler(one)) // which does not have it
	p.sync(t)
	for n, step := range []struct {
		removed     cache.ResourceEventHandlerRegistration
		once, twice int // calls
	}{
		{early, 1, 2},
		{first, 1, 1},
		{one, 0, 1},
		{second, 0, 0},
	} {
		must(t, p.RemoveEventHandler(step.removed))
		p.registered(t, fmt.Sprint("pod", n), map[*recorder]int{&never: 0, &once: step.once, &twice: step.twice})
	}
	once.wants(t, "add pod0 false", "add pod1 false")
	twice.wants(t, "add pod0 false", "add pod0 false", "add pod1 false", "add pod2 false")
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

// blocking is a handler whose first call waits until it is let go.
type blocking struct {
	recorder

	once         sync.Once
	called, gone chan struct{}
	letGo        func()
}

// newBlocking returns a handler that is let go when the test ends, if not before.
func newBlocking(t *testing.T) *blocking {
	t.Helper()
	b := &blocking{called: make(chan struct{}), gone: make(chan struct{})}
	b.letGo = sync.OnceFunc(func() { close(b.gone) })
	t.Cleanup(b.letGo)
	return b
}

func (b *blocking) OnAdd(o any, initial bool) {
	b.once.Do(func() {
		close(b.called)
		<-b.gone
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
	second := newBlocking(t)
	two := handle(t, p, second)
	wait(t, "the second handler is called", second.called)
	if two.HasSynced() {
		t.Error("synced before the handler had its first object")
	}
	second.letGo()
	p.api.put("pods", "a", "pod2", nil)
	second.wants(t, "add pod1 true", "add pod2 false")
	if !two.HasSynced() {
		t.Error("not synced after all objects")
	}
	first.wants(t, "add pod1 false", "add pod2 false")
}

// eventPanics expects that each panic is logged by the logger of its handler, and that other handlers
// have their calls.
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
	var good recorder
	handle(t, p, &good)
	p.sync(t)
	good.wants(t, "add pod1 true", "add pod2 true", "add pod3 true", "add pod4 true", "add pod5 true")
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

// removeOfBlockedHandlers expects that a removal does not wait for the call, and that a handler is not called any
// more after its removal or its shutdown, though an object waits for it.
func removeOfBlockedHandlers(t *testing.T) {
	p := newPodInformer(t, 0)
	p.sync(t)
	removed, shutDown := newBlocking(t), newBlocking(t)
	first, second := handle(t, p, removed), handle(t, p, shutDown)
	p.api.put("pods", "a", "pod1", nil)
	wait(t, "the first handler is called", removed.called)
	wait(t, "the second handler is called", shutDown.called)
	p.registered(t, "pod2", nil) // waits in both queues
	must(t, p.RemoveEventHandler(first))
	ended := make(chan error)
	go func() { ended <- cache.ShutDownEventHandler(p, second) }()
	select {
	case err := <-ended:
		t.Fatalf("the shutdown did not wait for the call (%v)", err)
	case <-time.After(20 * time.Millisecond):
	}
	removed.letGo()
	shutDown.letGo()
	must(t, <-ended)
	must(t, cache.ShutDownEventHandler(p, first)) // waits until its call has returned
	for _, h := range []*blocking{removed, shutDown} {
		if got := h.String(); got != "add pod1 false" {
			t.Errorf("calls %q, want one, which had returned", got)
		}
	}
}

// lifecycles removes a handler twice that was added before or after the start of its informer, and
// removed before or after its end.
func lifecycles(t *testing.T) {
	for name, remove := range map[string]func(cache.SharedInformer, cache.ResourceEventHandlerRegistration) error{
		"removal": cache.SharedInformer.RemoveEventHandler, "shutdown": cache.ShutDownEventHandler,
	} {
		for _, steps := range []string{"add", "add remove", "sync add remove", "add sync remove", "add sync end remove"} {
			t.Run(name+" "+steps, func(t *testing.T) {
				p := newPodInformer(t, time.Second)
				var r cache.ResourceEventHandlerRegistration
				for step := range strings.FieldsSeq(steps) {
					switch step {
					case "add":
						r = handle(t, p, nothing())
					case "sync":
						p.sync(t)
					case "end":
						p.end()
					default:
						must(t, remove(p, r))
						must(t, remove(p, r))
					}
				}
			})
		}
	}
}

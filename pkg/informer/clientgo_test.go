package informer_test

import (
	"context"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/informd/informd/pkg/informer"
)

// clientGo returns the scenarios of client-go's tests by name, written again for this package. Those of dynamicinformer
// and metadatainformer are in TestFaults and TestSelectors of informertest, those of dynamiclister and metadatalister
// in TestListersSelect and TestOwnerWithoutNamespace. These have no scenario:
//
//   - TestEventPanics, TestPanicPropagated: a panic does not leave the handler, and the next
//     notification follows at once.
//   - TestResyncCheckPeriod, TestListenerResyncPeriodsDelayed: each handler has exactly its period,
//     and starts before the watch.
//   - TestStoreResourceVersionWithNonMetaTransform: a transform must return an object; other
//     results are counted in Malformed and skipped.
//   - TestCacheWithTransformer, TestCacheTransactionShouldIndexErrors, TestWithStoreMetricsDefaulting:
//     the store has no transform, transactions or metrics; the informer and Factory.Stats do.
//   - TestFIFOCache, TestUndeltaStore: there is no such queue.
//   - TestTypedSharedIndexInformerAddTypedEventHandler: client-go's typed informer calls any other one.
//   - TestWatchListSemanticsSimple, TestUnSupportWatchListSemantics of both informers: the first
//     list is read in pages, and never by a watch.
func clientGo() map[string]func(*testing.T) {
	all := make(map[string]func(*testing.T))
	for _, of := range []map[string]func(*testing.T){
		clientGoHandlers(), clientGoLifecycles(), clientGoControllers(), clientGoStores(),
	} {
		maps.Copy(all, of)
	}
	return all
}

func TestClientGo(t *testing.T) {
	all := clientGo()
	for _, name := range slices.Sorted(maps.Keys(all)) {
		t.Run(name, func(t *testing.T) {
			ignore := goleak.IgnoreCurrent()
			t.Cleanup(func() { goleak.VerifyNone(t, ignore) }) // after those of the scenario
			all[name](t)
		})
	}
}

// podInformer is an informer of typed Pods of a fake API.
type podInformer struct {
	cache.SharedIndexInformer

	api *fakeAPI
	// end ends the informer and waits. It is called when the test ends, if not before.
	end  context.CancelFunc
	done chan struct{} // closed when Run has returned
}

func newPodInformer(t *testing.T, resync time.Duration, names ...string) *podInformer {
	t.Helper()
	api := newFakeAPI(t)
	for _, name := range names {
		api.put("pods", "a", name, nil)
	}
	i, err := informer.NewSharedIndexInformer(api.config(), pods(), &corev1.Pod{}, resync, cache.Indexers{})
	must(t, err)
	return &podInformer{SharedIndexInformer: i, api: api, done: make(chan struct{})}
}

// start runs the informer.
func (p *podInformer) start(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	go func() {
		defer close(p.done)
		p.RunWithContext(ctx)
	}()
	p.end = func() {
		cancel()
		<-p.done
	}
	t.Cleanup(p.end)
}

// sync runs the informer and waits until it is synced.
func (p *podInformer) sync(t *testing.T) {
	t.Helper()
	p.start(t)
	wait(t, "the informer is synced", p.HasSyncedChecker().Done())
}

// wait waits until a channel is closed.
func wait(t *testing.T, what string, done <-chan struct{}) {
	t.Helper()
	select {
	case <-done:
	case <-time.After(patience):
		t.Fatal("not seen: ", what)
	}
}

// registered adds a Pod, and expects that the handlers get it so many times.
func (p *podInformer) registered(t *testing.T, name string, handlers map[*recorder]int) {
	t.Helper()
	var last recorder // its queue is the last one that gets the notification
	r := handle(t, p, &last)
	p.api.put("pods", "a", name, nil)
	call := "add " + name
	eventually(t, call+" of the last handler", func() bool { return strings.Contains(last.String(), call) })
	for h, times := range handlers {
		eventually(t, call, func() bool { return strings.Count(h.String(), call) >= times })
		if n := strings.Count(h.String(), call); n > times {
			t.Errorf("a handler got %q %d times, want %d", call, n, times)
		}
	}
	must(t, p.RemoveEventHandler(r))
}

// nothing is a handler without functions.
func nothing() cache.ResourceEventHandler { return cache.ResourceEventHandlerFuncs{} }

// labelled is the content of an object with labels.
func labelled(labels map[string]any) map[string]any {
	return map[string]any{"metadata": map[string]any{"labels": labels}}
}

// disrupt changes Pods such that only a list shows it.
func (p *podInformer) disrupt(deleted, changed []string) {
	p.api.Outage(func() {
		for _, name := range deleted {
			p.api.delete("pods", "a", name)
		}
		for _, name := range changed {
			p.api.put("pods", "a", name, labelled(map[string]any{"changed": "yes"}))
		}
		p.api.Compact()
	})
}

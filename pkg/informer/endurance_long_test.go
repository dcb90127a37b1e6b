//go:build long

package informer_test

import (
	"testing"

	"k8s.io/client-go/tools/cache"

	"github.com/informd/informd/pkg/informer"
)

// TestCyclesLeaveNothing starts and stops informers and handlers 500 times. An informer of
// another resource runs during the first half.
func TestCyclesLeaveNothing(t *testing.T) {
	const warmUp, cycles = 20, 500
	e := newEndurance(t, informer.Options{})
	e.fill("pods", 5)
	cycle := func(n int) {
		i := e.ForResource(pods()).Informer()
		must(t, i.AddIndexers(cache.Indexers{"label": informer.LabelIndex("app")}))
		removed, kept := handle(t, i, nothing()), handle(t, i, nothing())
		e.begin(t, i)
		wait(t, "the handler is synced", kept.HasSyncedChecker().Done())
		must(t, cache.ShutDownEventHandler(i, removed))
		late := handle(t, i, nothing())
		wait(t, "the late handler is synced", late.HasSyncedChecker().Done())
		if keys := len(i.GetStore().ListKeys()); keys != 5 {
			t.Fatalf("cycle %d: %d Pods, want 5", n, keys)
		}
		e.end(t, pods())
		if !i.IsStopped() {
			t.Fatalf("cycle %d: the informer runs", n)
		}
	}
	for n := range warmUp {
		cycle(n)
	}
	baseline := e.held()
	var other recorder
	companion := e.ForResource(configs()).Informer()
	handle(t, companion, &other)
	e.begin(t, companion)
	for n := range cycles / 2 {
		cycle(n)
	}
	e.api.put("configmaps", "a", "one", nil)
	other.wants(t, "add one false")
	e.end(t, configs())
	for n := range cycles / 2 {
		cycle(cycles/2 + n)
	}
	e.backAt(t, baseline)
}

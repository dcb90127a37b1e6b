package informer_test

import (
	"context"
	"errors"
	"log/slog"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/informd/informd/pkg/informer"
)

// TestWaitForReadsOwnWrites: after each write and WaitFor, the store has it.
func TestWaitForReadsOwnWrites(t *testing.T) {
	api := newFakeAPI(t)
	api.put("configmaps", "a", "other", nil)
	factory, start := newFactory(t, api, informer.Options{})
	i := factory.ForResource(configs()).Informer()
	start()
	for range 50 {
		api.put("configmaps", "a", "one", nil)
		rv := api.revision()
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		must(t, factory.WaitFor(ctx, configs(), rv))
		o, found, err := i.GetStore().GetByKey("a/one")
		if err != nil || !found || versionOf(o) != rv {
			t.Fatalf("after WaitFor(%s): object %v (%t, %v)", rv, o, found, err)
		}
		api.delete("configmaps", "a", "one")
		must(t, factory.WaitFor(ctx, configs(), api.revision()))
		if _, found, _ := i.GetStore().GetByKey("a/one"); found {
			t.Fatal("after WaitFor of a deletion the object is there")
		}
		cancel()
	}
}

// TestWaitForOtherObjects: a bookmark moves the position when the change is of another resource.
func TestWaitForOtherObjects(t *testing.T) {
	api := newFakeAPI(t)
	factory, start := newFactory(t, api, informer.Options{})
	factory.ForMetadata(configs())
	start()
	api.put("pods", "a", "one", nil)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if err := factory.WaitFor(ctx, configs(), api.revision()); err != nil {
		t.Error(err)
	}
}

func TestWaitForErrors(t *testing.T) {
	api := newFakeAPI(t)
	factory, start := newFactory(t, api, informer.Options{})
	factory.ForResource(configs())
	if err := factory.WaitFor(t.Context(), configs(), "1"); err == nil || !strings.Contains(err.Error(), "no informer is started") {
		t.Errorf("error %v, want that nothing is started", err)
	}
	start()
	if err := factory.WaitFor(t.Context(), configs(), "abc"); err == nil || !strings.Contains(err.Error(), "no number") {
		t.Errorf("error %v, want that it is no number", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if err := factory.WaitFor(ctx, configs(), "99999999"); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("error %v, want the deadline", err)
	}
	ended := make(chan error)
	go func() { ended <- factory.WaitFor(t.Context(), configs(), "99999999") }()
	factory.Stop(configs())
	if err := <-ended; err == nil || !strings.Contains(err.Error(), "informer") {
		t.Errorf("error %v, want that the informer has ended", err)
	}
}

// TestUse: the informer ends with its last user, and a later one gets a new informer.
func TestUse(t *testing.T) {
	api := newFakeAPI(t)
	api.put("configmaps", "a", "one", nil)
	factory, start := newFactory(t, api, informer.Options{})
	first, releaseFirst := factory.Use(configs())
	second, releaseSecond := factory.Use(configs())
	if first.Informer() != second.Informer() {
		t.Fatal("two users have different informers")
	}
	eventually(t, "the informer is synced", first.Informer().HasSynced)
	releaseFirst()
	releaseFirst() // a second call must not count
	if second.Informer().IsStopped() {
		t.Fatal("the informer ended with one of two users")
	}
	releaseSecond()
	if !second.Informer().IsStopped() {
		t.Fatal("the informer has no user and runs")
	}
	third, releaseThird := factory.Use(configs())
	var seen recorder
	handle(t, third.Informer(), &seen)
	seen.wants(t, "add one true")
	start() // of all: it has no end with its users any more
	releaseThird()
	api.put("configmaps", "a", "two", nil)
	seen.wants(t, "add one true", "add two false")

	metadata, release := factory.UseMetadata(secrets())
	defer release()
	eventually(t, "the metadata informer is synced", metadata.Informer().HasSynced)
}

// TestUseDuringRelease: an informer that is made while its predecessor ends starts after it.
func TestUseDuringRelease(t *testing.T) {
	api := newFakeAPI(t)
	factory, _ := newFactory(t, api, informer.Options{})
	var all sync.WaitGroup
	defer all.Wait()
	for range 200 {
		first, release := factory.Use(configs())
		eventually(t, "the informer is synced", first.Informer().HasSynced)
		all.Go(release)
		for factory.ForResource(configs()).Informer() == first.Informer() {
			runtime.Gosched()
		}
		second, release := factory.Use(configs())
		eventually(t, "the informer of the second user is synced", second.Informer().HasSynced)
		all.Go(release)
	}
}

// TestWaitForAfterRollback: resourceVersions of the restored history are reached with its changes.
func TestWaitForAfterRollback(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := newFakeAPI(t)
		api.put("configmaps", "a", "one", nil)
		factory, err := informer.NewFactory(api.config(), informer.Options{Logger: slog.New(slog.DiscardHandler)})
		must(t, err)
		i := factory.ForResource(configs()).Informer()
		stop := make(chan struct{})
		defer factory.Shutdown()
		defer close(stop)
		factory.Start(stop)
		restored := api.Revision()
		for range 20 {
			api.put("configmaps", "a", "one", nil)
		}
		api.put("configmaps", "a", "lost", nil)
		must(t, factory.WaitFor(t.Context(), configs(), api.revision()))
		api.Rollback(restored)
		for found := true; found; { // until the informer has seen it
			<-time.After(time.Minute)
			_, found, _ = i.GetStore().GetByKey("a/lost")
		}
		for range 5 {
			api.put("configmaps", "a", "one", nil)
			rv := api.revision()
			must(t, factory.WaitFor(t.Context(), configs(), rv))
			if o, _, err := i.GetStore().GetByKey("a/one"); err != nil || versionOf(o) != rv {
				t.Fatalf("after WaitFor(%s): object of %s, %v", rv, versionOf(o), err)
			}
		}
	})
}

func versionOf(o any) string {
	if m, ok := o.(metav1.Object); ok {
		return m.GetResourceVersion()
	}
	return ""
}

// TestUseAfterTheEnd: a user never gets an informer that has ended, whose store is as of that time.
func TestUseAfterTheEnd(t *testing.T) {
	api := newFakeAPI(t)
	factory, _ := newFactory(t, api, informer.Options{})
	old := factory.ForResource(configs()).Informer()
	stop := make(chan struct{})
	factory.Start(stop)
	eventually(t, "the informer is synced", old.HasSynced)
	close(stop)
	eventually(t, "the informer has ended", old.IsStopped)
	api.put("configmaps", "a", "one", nil)
	i, release := factory.Use(configs())
	defer release()
	eventually(t, "the new object", func() bool { return len(i.Informer().GetStore().ListKeys()) == 1 })
}

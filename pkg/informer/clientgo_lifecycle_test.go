package informer_test

import (
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/tools/cache"

	"github.com/informd/informd/pkg/informer/informertest"
)

// clientGoLifecycles are the tests of shared_informer_test.go about the informer itself. watchDisruption is
// that of TestResetWatch as well, and state that of TestAddOnStoppedSharedInformer.
func clientGoLifecycles() map[string]func(*testing.T) {
	return map[string]func(*testing.T){
		"TestSharedInformerInitializationRace": initializationRace,
		"TestSharedInformerWatchDisruption":    watchDisruption,
		"TestSharedInformerErrorHandling":      errorHandling,
		"TestSharedInformerStartRace":          startRace,
		"TestStateSharedInformer":              state,
	}
}

func initializationRace(t *testing.T) {
	p := newPodInformer(t, time.Second, "pod1")
	var h recorder
	added := make(chan error)
	go func() {
		_, err := p.AddEventHandlerWithResyncPeriod(&h, 0)
		added <- err
	}()
	p.start(t)
	must(t, <-added)
	h.wants(t, "add pod1 true")
}

// watchDisruption expects that an interrupted watch reports changes only, and resyncs the rest.
func watchDisruption(t *testing.T) {
	p := newPodInformer(t, time.Hour, "pod1", "pod2")
	var plain, resyncing recorder
	for h, period := range map[*recorder]time.Duration{&plain: 0, &resyncing: 20 * time.Millisecond} {
		if _, err := p.AddEventHandlerWithResyncPeriod(h, period); err != nil {
			t.Fatal(err)
		}
	}
	p.sync(t)
	plain.wants(t, "add pod1 true", "add pod2 true")
	p.disrupt(nil, []string{"pod2", "pod3"})
	plain.wants(t, "add pod1 true", "add pod2 true", "update pod2", "add pod3 false")
	eventually(t, "resyncs of all Pods", func() bool {
		_, after, found := strings.Cut(resyncing.String(), "add pod3 false")
		return found && strings.Contains(after, "update pod1, update pod2, update pod3")
	})
}

// errorHandling expects that a program can ask what the API server answered.
func errorHandling(t *testing.T) {
	for name, of := range map[string]struct {
		code int
		is   func(error) bool
		text string
	}{
		"unauthorized":      {http.StatusUnauthorized, apierrors.IsUnauthorized, ""},
		"unavailable":       {http.StatusServiceUnavailable, apierrors.IsServiceUnavailable, ""},
		"too many requests": {http.StatusTooManyRequests, apierrors.IsTooManyRequests, ""},
		"forbidden":         {http.StatusForbidden, apierrors.IsForbidden, "pods is forbidden: list: "},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPodInformer(t, 0)
			p.api.Inject(informertest.Fault{Verb: informertest.List, Resource: pods().GroupResource(), Code: of.code})
			seen := make(chan error, 1)
			must(t, p.SetWatchErrorHandler(func(r *cache.Reflector, err error) {
				cache.DefaultWatchErrorHandler(t.Context(), r, err)
				select {
				case seen <- err:
				default:
				}
			}))
			p.start(t)
			select {
			case err := <-seen:
				if !of.is(err) || !strings.HasPrefix(err.Error(), of.text) {
					t.Errorf("error %#v does not have the type, the resource and the text of the server", err)
				}
			case <-time.After(patience):
				t.Error("no error was reported")
			}
		})
	}
}

// startRace sets options while the informer starts: they are set, or an error says that it is
// too late.
func startRace(t *testing.T) {
	p := newPodInformer(t, time.Second)
	stop := make(chan struct{})
	var setting sync.WaitGroup
	setting.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
			}
			late := p.SetTransform(func(o any) (any, error) { return o, nil })
			if err := p.SetWatchErrorHandler(func(*cache.Reflector, error) {}); late != nil && err == nil {
				t.Error("a started informer took a handler of errors")
			}
		}
	})
	p.sync(t)
	close(stop)
	setting.Wait()
	if err := p.SetTransform(nil); err == nil || err.Error() != "informer has already started" {
		t.Errorf("error %v", err)
	}
}

func state(t *testing.T) {
	p := newPodInformer(t, time.Second, "pod1")
	var h recorder
	handle(t, p, &h)
	if p.IsStopped() {
		t.Error("stopped before its start")
	}
	p.start(t)
	h.wants(t, "add pod1 true")
	if p.IsStopped() {
		t.Error("stopped while it runs")
	}
	p.end()
	if !p.IsStopped() {
		t.Error("not stopped after its end")
	}
	p.Run(nil) // returns: a stopped informer does not start again
	_, err := p.AddEventHandlerWithResyncPeriod(nothing(), 0)
	if err == nil || !strings.HasSuffix(err.Error(), "was not added to shared informer because it has stopped already") {
		t.Errorf("error %v", err)
	}
	if err := p.AddIndexers(cache.Indexers{}); err == nil || err.Error() != "indexer was not added because it has stopped already" {
		t.Errorf("error %v", err)
	}
}

package informer_test

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/cache"
)

// clientGoControllers are the tests of controller_test.go about informers.
func clientGoControllers() map[string]func(*testing.T) {
	return map[string]func(*testing.T){
		"TestHammerController":                         hammer,
		"TestUpdate":                                   update,
		"TestPanicPropagated":                          panicContained,
		"TestTransformingInformer":                     transforming,
		"TestTransformingInformerRace":                 transformingRace,
		"TestProcessDeltasInBatch":                     partlyFailing,
		"TestReplaceEvents":                            replaceEvents,
		"TestResetWatch":                               resetWatch,
		"TestStoreResourceVersion":                     storeResourceVersion,
		"TestStoreResourceVersionWithNonMetaTransform": noObjectTransform,
	}
}

// hammer changes objects from several goroutines, and expects that the calls of a handler describe
// the objects at the end.
func hammer(t *testing.T) {
	p := newPodInformer(t, time.Hour)
	var mu sync.Mutex
	known := make(map[string]bool)
	record := func(exists bool) func(any) {
		return func(o any) {
			key, err := cache.DeletionHandlingMetaNamespaceKeyFunc(o)
			if err != nil {
				t.Error(err)
			}
			mu.Lock()
			defer mu.Unlock()
			if known[key] == exists {
				t.Errorf("%s exists: %t, which the handler knows", key, exists)
			}
			known[key] = exists
		}
	}
	handle(t, p, cache.ResourceEventHandlerFuncs{AddFunc: record(true), DeleteFunc: record(false)})
	if p.HasSynced() {
		t.Error("synced before its start")
	}
	p.sync(t)
	want := make(map[string]bool)
	var changing sync.WaitGroup
	for n := range 3 {
		changing.Go(func() {
			own := make(map[string]bool)
			for range 100 {
				name := fmt.Sprintf("pod%d-%d", n, rand.IntN(10))
				if key := "a/" + name; own[key] && rand.IntN(2) == 0 {
					p.api.delete("pods", "a", name)
					own[key] = false
				} else {
					p.api.put("pods", "a", name, nil)
					own[key] = true
				}
			}
			mu.Lock()
			defer mu.Unlock()
			maps.Copy(want, own)
		})
	}
	changing.Wait()
	eventually(t, "the state of the server", func() bool {
		mu.Lock()
		defer mu.Unlock()
		return maps.Equal(known, want)
	})
}

// update deletes each object when its update is seen.
func update(t *testing.T) {
	p := newPodInformer(t, 0)
	const objects = 3
	var deleted sync.WaitGroup
	deleted.Add(objects)
	handle(t, p, cache.ResourceEventHandlerFuncs{
		UpdateFunc: func(before, now any) {
			from, to := labelOf(before, "check"), labelOf(now, "check")
			if from != "from" || to != "to" {
				t.Errorf("update of %s from %q to %q", nameOf(now), from, to)
			}
			p.api.delete("pods", "a", nameOf(now))
		},
		DeleteFunc: func(any) { deleted.Done() },
	})
	p.sync(t)
	for n := range objects {
		go func() {
			name := fmt.Sprintf("pod%d", n)
			p.api.put("pods", "a", name, labelled(map[string]any{"check": "from"}))
			p.api.put("pods", "a", name, labelled(map[string]any{"check": "to"}))
		}()
	}
	deleted.Wait()
}

func labelOf(o any, label string) string {
	pod, ok := o.(*corev1.Pod)
	if !ok {
		return ""
	}
	return pod.Labels[label]
}

// panicContained expects that a panic ends neither the informer nor the process.
func panicContained(t *testing.T) {
	p := newPodInformer(t, 0)
	handle(t, p, cache.ResourceEventHandlerFuncs{AddFunc: func(any) { panic("Just panic.") }})
	var other recorder
	handle(t, p, &other)
	p.sync(t)
	p.api.put("pods", "a", "pod1", nil)
	p.api.put("pods", "a", "pod2", nil)
	other.wants(t, "add pod1 false", "add pod2 false")
}

// withHost is the content of a Pod.
func withHost(generation string) map[string]any {
	content := labelled(map[string]any{"generation": generation})
	content["spec"] = map[string]any{"hostname": "hostname", "subdomain": "subdomain"}
	return content
}

// transforming expects that handlers and the store have transformed objects only.
func transforming(t *testing.T) {
	p := newPodInformer(t, 0)
	p.api.put("pods", "a", "pod1", withHost("1"))
	p.api.put("pods", "a", "pod1", withHost("2"))
	if err := p.SetTransform(func(o any) (any, error) {
		pod, ok := o.(*corev1.Pod)
		if !ok {
			return nil, fmt.Errorf("unexpected %T", o)
		}
		pod.Spec.Hostname, pod.Spec.Subdomain, pod.Spec.NodeName = "new", "", "node"
		pod.ResourceVersion, pod.UID = "", ""
		return pod, nil
	}); err != nil {
		t.Fatal(err)
	}
	seen := make(chan [3]any, 10)
	handle(t, p, cache.ResourceEventHandlerFuncs{
		AddFunc:    func(o any) { seen <- [3]any{"add", nil, o} },
		UpdateFunc: func(before, now any) { seen <- [3]any{"update", before, now} },
		DeleteFunc: func(o any) { seen <- [3]any{"delete", o, nil} },
	})
	pod := func(name, generation string) *corev1.Pod {
		want := &corev1.Pod{}
		want.Namespace, want.Name, want.Labels = "a", name, map[string]string{"generation": generation}
		want.Spec.Hostname, want.Spec.NodeName = "new", "node"
		return want
	}
	next := func(want ...any) {
		t.Helper()
		select {
		case got := <-seen:
			if diff := cmp.Diff(want, got[:]); diff != "" {
				t.Error(diff)
			}
		case <-time.After(patience):
			t.Fatalf("not seen: %v", want)
		}
	}
	p.sync(t)
	next("add", nil, pod("pod1", "2"))
	p.api.put("pods", "a", "pod2", withHost("1"))
	next("add", nil, pod("pod2", "1"))
	p.api.put("pods", "a", "pod2", withHost("2"))
	next("update", pod("pod2", "1"), pod("pod2", "2"))
	if diff := cmp.Diff([]any{pod("pod1", "2"), pod("pod2", "2")}, p.GetStore().List()); diff != "" {
		t.Error(diff)
	}
	p.api.delete("pods", "a", "pod1")
	next("delete", pod("pod1", "2"), nil)
	if diff := cmp.Diff([]any{pod("pod2", "2")}, p.GetStore().List()); diff != "" {
		t.Error(diff)
	}
}

// transformingRace reads objects during resyncs: none is transformed twice or not at all.
func transformingRace(t *testing.T) {
	p := newPodInformer(t, 5*time.Millisecond)
	const objects, rounds = 5, 20
	for n := range objects {
		p.api.put("pods", "a", fmt.Sprint("pod", n), labelled(map[string]any{"transformed": "no"}))
	}
	if err := p.SetTransform(func(o any) (any, error) {
		if labelOf(o, "transformed") != "no" {
			t.Errorf("%v is transformed already", o)
		}
		o.(*corev1.Pod).Labels["transformed"] = "yes" //nolint:forcetypeassert // a panic is reported
		return o, nil
	}); err != nil {
		t.Fatal(err)
	}
	var updates atomic.Int32
	handle(t, p, cache.ResourceEventHandlerFuncs{UpdateFunc: func(any, any) { updates.Add(1) }})
	p.sync(t)
	var reading sync.WaitGroup
	for n := range objects {
		reading.Go(func() {
			for updates.Load() < objects*rounds {
				o, found, err := p.GetStore().GetByKey(fmt.Sprint("a/pod", n))
				if !found || err != nil || labelOf(o, "transformed") != "yes" {
					t.Errorf("pod%d: %v (%t, %v)", n, o, found, err)
					return
				}
			}
		})
	}
	reading.Wait()
}

// partlyFailing expects that an object that cannot be stored reaches no handler, and the others do.
func partlyFailing(t *testing.T) {
	for name, of := range map[string]struct{ failing, want string }{
		"none": {"", "add pod1 true, add pod2 true, add pod3 true"},
		"last": {"pod3", "add pod1 true, add pod2 true"},
		"one":  {"pod2", "add pod1 true, add pod3 true"},
		"all":  {"pod1 pod2 pod3", ""},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPodInformer(t, 0, "pod1", "pod2", "pod3")
			if err := p.SetTransform(func(o any) (any, error) {
				if strings.Contains(of.failing, nameOf(o)) {
					return nil, errors.New("test error")
				}
				return o, nil
			}); err != nil {
				t.Fatal(err)
			}
			var h recorder
			r := handle(t, p, &h)
			p.sync(t)
			wait(t, "the handler is synced", r.HasSyncedChecker().Done())
			h.wants(t, of.want)
		})
	}
}

// replaceEvents expects the difference between two lists.
func replaceEvents(t *testing.T) {
	for name, of := range map[string]struct {
		before, deleted, changed []string
		want                     string
	}{
		"Create with no initial objects": {nil, nil, []string{"pod-1"}, "add pod-1 false"},
		"Delete all objects":             {[]string{"pod-1", "pod-3"}, []string{"pod-1", "pod-3"}, nil, "lost a/pod-1, lost a/pod-3"},
		"Create, update, delete": {
			[]string{"pod-1", "pod-2", "pod-3"},
			[]string{"pod-3"},
			[]string{"pod-1", "pod-2", "pod-4"},
			"lost a/pod-3, update pod-1, update pod-2, add pod-4 false",
		},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPodInformer(t, 0, of.before...)
			p.sync(t)
			var h recorder
			var want []string
			for _, name := range of.before {
				want = append(want, "add "+name+" true")
			}
			handle(t, p, &h)
			h.wants(t, want...)
			p.disrupt(of.deleted, of.changed)
			want = slices.Sorted(slices.Values(append(want, strings.Split(of.want, ", ")...)))
			eventually(t, "the difference, with objects in any order", func() bool {
				return slices.Equal(slices.Sorted(strings.SplitSeq(h.String(), ", ")), want)
			})
		})
	}
}

func resetWatch(t *testing.T) {
	p := newPodInformer(t, 0, "pod-1")
	var h recorder
	handle(t, p, &h)
	p.sync(t)
	h.wants(t, "add pod-1 true")
	p.disrupt(nil, []string{"pod-1", "pod-2"})
	h.wants(t, "add pod-1 true", "update pod-1", "add pod-2 false")
}

// storeResourceVersion expects that the store has the version of the last event.
func storeResourceVersion(t *testing.T) {
	p := newPodInformer(t, 0, "pod-1")
	var last atomic.Value
	note := func(o any) {
		pod, ok := o.(*corev1.Pod)
		if !ok {
			t.Errorf("%T is no Pod", o)
			return
		}
		last.Store(pod.ResourceVersion)
	}
	handle(t, p, cache.ResourceEventHandlerFuncs{AddFunc: note, UpdateFunc: func(_, o any) { note(o) }, DeleteFunc: note})
	p.sync(t)
	changes := map[string]func(){
		"update": func() { p.api.put("pods", "a", "pod-1", labelled(map[string]any{"foo": "bar"})) },
		"delete": func() { p.api.delete("pods", "a", "pod-1") },
	}
	for _, name := range []string{"update", "delete"} {
		before := p.GetStore().LastStoreSyncResourceVersion()
		changes[name]()
		eventually(t, name+" moves the version of the store", func() bool {
			now := p.GetStore().LastStoreSyncResourceVersion()
			return now != before && now == last.Load() && now == p.LastSyncResourceVersion()
		})
	}
}

// noObjectTransform expects that a transform must return an object.
func noObjectTransform(t *testing.T) {
	p := newPodInformer(t, 0, "pod-1")
	must(t, p.SetTransform(func(o any) (any, error) { return nameOf(o), nil }))
	var h recorder
	r := handle(t, p, &h)
	p.sync(t)
	wait(t, "the handler is synced", r.HasSyncedChecker().Done())
	h.wants(t)
	if keys := p.GetStore().ListKeys(); len(keys) > 0 {
		t.Errorf("the store has %v", keys)
	}
}

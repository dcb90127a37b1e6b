package informer_test

import (
	"errors"
	"fmt"
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

// clientGoControllers are the tests of controller_test.go about informers. transforming is that of TestUpdate
// and TestSharedInformerTransformer as well, partlyFailing that of
// TestStoreResourceVersionWithNonMetaTransform, and TestConcurrentUse of informertest that of
// TestHammerController.
func clientGoControllers() map[string]func(*testing.T) {
	return map[string]func(*testing.T){
		"TestTransformingInformer":     transforming,
		"TestTransformingInformerRace": transformingRace,
		"TestProcessDeltasInBatch":     partlyFailing,
		"TestReplaceEvents":            replaceEvents,
		"TestStoreResourceVersion":     storeResourceVersion,
	}
}

func labelOf(o any, label string) string {
	pod, ok := o.(*corev1.Pod)
	if !ok {
		return ""
	}
	return pod.Labels[label]
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

// partlyFailing expects that an object that cannot be stored is not in the store and reaches no handler, and
// the others do.
func partlyFailing(t *testing.T) {
	failed := errors.New("test error")
	for name, of := range map[string]struct {
		failing string
		err     error
		want    string
	}{
		"none":      {"", failed, "add pod1 true, add pod2 true, add pod3 true"},
		"last":      {"pod3", failed, "add pod1 true, add pod2 true"},
		"one":       {"pod2", failed, "add pod1 true, add pod3 true"},
		"all":       {"pod1 pod2 pod3", failed, ""},
		"no object": {"pod1 pod3", nil, "add pod2 true"},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPodInformer(t, 0, "pod1", "pod2", "pod3")
			must(t, p.SetTransform(func(o any) (any, error) {
				if strings.Contains(of.failing, nameOf(o)) {
					return nameOf(o), of.err
				}
				return o, nil
			}))
			var h recorder
			r := handle(t, p, &h)
			p.sync(t)
			wait(t, "the handler is synced", r.HasSyncedChecker().Done())
			h.wants(t, of.want)
			if keys := p.GetStore().ListKeys(); len(keys) != strings.Count(of.want, "add") {
				t.Errorf("the store has %q", keys)
			}
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
	for name, change := range map[string]func(){
		"update": func() { p.api.put("pods", "a", "pod-1", labelled(map[string]any{"foo": "bar"})) },
		"delete": func() { p.api.delete("pods", "a", "pod-1") },
	} {
		before := p.GetStore().LastStoreSyncResourceVersion()
		change()
		eventually(t, name+" moves the version of the store", func() bool {
			now := p.GetStore().LastStoreSyncResourceVersion()
			return now != before && now == last.Load() && now == p.LastSyncResourceVersion()
		})
	}
}

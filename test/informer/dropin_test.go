package informer_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/informers"
	listers "k8s.io/client-go/listers/core/v1"

	"github.com/informd/informd/pkg/informer"
	"github.com/informd/informd/pkg/informer/informertest"

	"github.com/informd/informd/test/e2e"
)

// dynamicFactory is the type of docs/embedding.md.
type dynamicFactory struct{ *informer.Factory } // a dynamicinformer.DynamicSharedInformerFactory

func (f dynamicFactory) ForResource(gvr schema.GroupVersionResource) informers.GenericInformer {
	return f.Factory.ForResource(gvr)
}

// TestDropIn uses informers through interfaces of client-go: its factory, and its typed listers.
func TestDropIn(t *testing.T) {
	fake := informertest.New()
	fake.Put(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "one"}, Spec: corev1.PodSpec{NodeName: "n"}})
	own, err := informer.NewFactory(fake.Config(), informer.Options{})
	e2e.Must(t, err)
	gvr := schema.GroupVersionResource{Version: "v1", Resource: "pods"}
	var factory dynamicinformer.DynamicSharedInformerFactory = dynamicFactory{own}
	whole := factory.ForResource(gvr)
	typed, err := informer.NewSharedIndexInformer(fake.Config(), gvr, &corev1.Pod{}, 0, nil)
	e2e.Must(t, err)
	stop, ended := make(chan struct{}), make(chan struct{})
	go func() { defer close(ended); typed.Run(stop) }()
	factory.Start(stop)
	t.Cleanup(func() { close(stop); factory.Shutdown(); <-ended })
	if !factory.WaitForCacheSync(t.Context().Done())[gvr] {
		t.Fatal("not synced")
	}
	e2e.Eventually(t, "the typed informer is synced", typed.HasSynced)
	if _, err := whole.Lister().ByNamespace("a").Get("one"); err != nil {
		t.Error(err)
	}
	if pod, err := listers.NewPodLister(typed.GetIndexer()).Pods("a").Get("one"); err != nil || pod.Spec.NodeName != "n" {
		t.Errorf("typed: %v (%v)", pod, err)
	}
}

package informer_test

import (
	"context"
	"fmt"
	"net"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/informd/informd/pkg/informer"
	"github.com/informd/informd/test/cluster"
	"github.com/informd/informd/test/e2e"
)

// sockets counts the open connections of a configuration.
func sockets(config *rest.Config) *atomic.Int64 {
	var open atomic.Int64
	config.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := (&net.Dialer{}).DialContext(ctx, network, address)
		if err != nil {
			return nil, err
		}
		open.Add(1)
		return &socket{Conn: conn, closed: sync.OnceFunc(func() { open.Add(-1) })}, nil
	}
	return &open
}

type socket struct {
	net.Conn

	closed func()
}

func (s *socket) Close() error {
	s.closed()
	return s.Conn.Close()
}

// blocker is a handler that blocks in each call, until gone is closed.
type blocker struct {
	called chan struct{}
	once   sync.Once
	gone   <-chan struct{}
}

func (b *blocker) OnAdd(any, bool) {
	b.once.Do(func() { close(b.called) })
	<-b.gone
}
func (b *blocker) OnUpdate(_, o any) { b.OnAdd(o, false) }
func (b *blocker) OnDelete(o any)    { b.OnAdd(o, false) }

// TestBlockedHandlersBesideOthers blocks the handlers of more informers than informd has lists at a time,
// during their first lists. Informers of another resource start, deliver and stop 50 times.
// After that, nothing is left.
func TestBlockedHandlersBesideOthers(t *testing.T) {
	c := cluster.Start(t, cluster.Options{})
	api := client(t, c.RESTConfig())
	goroutines := runtime.NumGoroutine()
	config := c.RESTConfig()
	open := sockets(config)
	factory, err := informer.NewFactory(config, informer.Options{QueueLimit: 1})
	e2e.Must(t, err)
	stop, gone := make(chan struct{}), make(chan struct{})
	end := sync.OnceFunc(func() { close(gone); close(stop); factory.Shutdown() })
	t.Cleanup(end)

	var blocked []cache.SharedIndexInformer
	for _, gvr := range []schema.GroupVersionResource{
		{Group: "rbac.authorization.k8s.io", Version: "v1", Resource: "clusterroles"},
		{Group: "rbac.authorization.k8s.io", Version: "v1", Resource: "clusterrolebindings"},
		{Group: "rbac.authorization.k8s.io", Version: "v1", Resource: "roles"},
		{Group: "rbac.authorization.k8s.io", Version: "v1", Resource: "rolebindings"},
		{Group: "flowcontrol.apiserver.k8s.io", Version: "v1", Resource: "flowschemas"},
		{Group: "flowcontrol.apiserver.k8s.io", Version: "v1", Resource: "prioritylevelconfigurations"},
		{Group: "apiregistration.k8s.io", Version: "v1", Resource: "apiservices"},
	} {
		i, h := factory.ForResource(gvr).Informer(), &blocker{called: make(chan struct{}), gone: gone}
		if _, err := i.AddEventHandler(h); err != nil {
			t.Fatal(err)
		}
		factory.Start(stop)
		select {
		case <-h.called:
		case <-time.After(patience):
			t.Fatalf("the handler of %s is not called beside %d that block", gvr, len(blocked))
		}
		blocked = append(blocked, i)
	}

	gvr := schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}
	before := open.Load()
	for n := range 50 {
		i := factory.ForResource(gvr).Informer()
		added := make(chan string, 100)
		if _, err := i.AddEventHandler(cache.ResourceEventHandlerFuncs{AddFunc: func(o any) {
			if object, ok := o.(metav1.Object); ok {
				added <- object.GetName()
			}
		}}); err != nil {
			t.Fatal(err)
		}
		factory.Start(stop)
		select {
		case <-i.HasSyncedChecker().Done():
		case <-time.After(patience):
			t.Fatal("not synced beside handlers that block")
		}
		name := fmt.Sprint("object-", n)
		if _, err := api.CoreV1().ConfigMaps(namespace).Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		for got := ""; got != name; {
			select {
			case got = <-added:
			case <-time.After(patience):
				t.Fatalf("%s is not seen beside handlers that block", name)
			}
		}
		factory.Stop(gvr)
	}
	if slices.ContainsFunc(blocked, cache.SharedIndexInformer.HasSynced) {
		t.Error("an informer is synced, although its queue was full")
	}
	e2e.Eventually(t, "connections are closed or used again", func() bool { return open.Load() <= before+1 })
	end()
	e2e.Eventually(t, "no connection is left", func() bool { return open.Load() == 0 })
	e2e.Eventually(t, "no goroutine is left", func() bool { return runtime.NumGoroutine() <= goroutines+2 }) // those of the client
}

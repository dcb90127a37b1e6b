package cli

import (
	"context"
	"encoding/base64"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/informd/informd/pkg/informer/informertest"
)

// demoPace is the time between two changes: slow enough to read them.
const demoPace = 700 * time.Millisecond

// shop is the simulated cluster of the demo, and what acts in it: it is its own Deployment controller, kubelet
// and people.
type shop struct {
	*informertest.Cluster

	pods    [2]int // the numbers of the Pods that serve
	lastPod int
}

// newShop returns a cluster with a running shop.
func newShop() *shop {
	s := &shop{Cluster: informertest.New(), pods: [2]int{1, 2}, lastPod: 2}
	s.Serve(informertest.Resource{Group: "demo.informd.dev", Version: "v1", Resource: "sensors", Kind: "Sensor"})
	for _, namespace := range []string{"kube-system", "shop"} {
		s.Put(fmt.Sprintf(`{"kind":"Namespace","metadata":{"name":%q}}`, namespace))
	}
	s.patch("Deployment", "web", `
		"spec":{"replicas":2,"selector":{"matchLabels":{"app":"web"}}},"status":{"readyReplicas":2}`)
	s.image(1)
	for _, number := range s.pods {
		s.pod(number, 1, ready)
	}
	s.settings(1)
	s.password(1)
	s.measure(1)
	return s
}

// patch creates an object of the shop, or merges fields into it.
func (s *shop) patch(kind, name, fields string) {
	s.Patch(fmt.Sprintf(`{"kind":%q,"metadata":{"namespace":"shop","name":%q},%s}`, kind, name, fields))
}

func (s *shop) image(release int) {
	s.patch("Deployment", "web", fmt.Sprintf(`"spec":{"template":{"metadata":{"labels":{"app":"web"}},
		"spec":{"containers":[{"name":"web","image":"registry.example.com/shop/web:v%d"}]}}}`, release))
}

// The states of a Pod: its phase, and its container.
const (
	creating = `"phase":"Pending","containerStatuses":[{"ready":false,"state":{"waiting":{"reason":"ContainerCreating"}}}]`
	noImage  = `"phase":"Pending","containerStatuses":[{"ready":false,"state":{"waiting":{"reason":"ImagePullBackOff"}}}]`
	ready    = `"phase":"Running","containerStatuses":[{"ready":true,"state":{"running":{}}}]`
)

func podName(number int) string { return fmt.Sprint("web-", number) }

func (s *shop) pod(number, release int, state string) {
	s.patch("Pod", podName(number), fmt.Sprintf(`
		"spec":{"containers":[{"name":"web","image":"registry.example.com/shop/web:v%d"}]},
		"status":{%s}`, release, state))
}

func (s *shop) removePod(number int) {
	s.Delete(schema.GroupResource{Resource: "pods"}, "shop", podName(number))
}

func (s *shop) settings(n int) {
	s.patch("ConfigMap", "settings", fmt.Sprintf(`"data":{"currency":"EUR","discount":"%d%%"}`, n*5%40))
}

func (s *shop) password(n int) {
	s.patch("Secret", "database", fmt.Sprintf(`"type":"Opaque","data":{"user":%q,"password":%q}`,
		base64.StdEncoding.EncodeToString([]byte("shop")), base64.StdEncoding.EncodeToString(fmt.Append(nil, "secret-", n))))
}

func (s *shop) measure(n int) {
	s.patch("Sensor", "fridge", fmt.Sprintf(`"spec":{"unit":"celsius"},"status":{"phase":"Measuring","value":%d}`, 3+n%4))
}

// run changes the shop until ctx ends. It calls remind each half minute or so.
func (s *shop) run(ctx context.Context, remind func()) {
	for n := 2; ctx.Err() == nil; n++ {
		s.round(ctx, n)
		if n%5 == 0 {
			remind()
		}
	}
}

// round makes one release. Each third one has no image, and is rolled back.
func (s *shop) round(ctx context.Context, n int) {
	s.step(ctx, func() { s.image(n) })
	if n%3 == 0 {
		s.fail(ctx, n)
	} else {
		s.roll(ctx, n)
	}
	s.step(ctx, func() { s.settings(n) })
	s.step(ctx, func() { s.measure(n) })
	s.step(ctx, func() { s.password(n) })
}

// roll replaces each Pod.
func (s *shop) roll(ctx context.Context, release int) {
	for i, old := range s.pods {
		s.lastPod++
		s.pods[i] = s.lastPod
		s.step(ctx, func() { s.pod(s.pods[i], release, creating) })
		s.step(ctx, func() { s.pod(s.pods[i], release, ready) })
		s.step(ctx, func() { s.removePod(old) })
	}
}

func (s *shop) fail(ctx context.Context, release int) {
	s.lastPod++
	s.step(ctx, func() { s.pod(s.lastPod, release, creating) })
	s.step(ctx, func() { s.pod(s.lastPod, release, noImage) })
	s.step(ctx, func() { s.image(release - 1) })
	s.step(ctx, func() { s.removePod(s.lastPod) })
}

// step makes a change after the pace, unless ctx ends.
func (s *shop) step(ctx context.Context, change func()) {
	select {
	case <-time.After(demoPace):
		change()
	case <-ctx.Done():
	}
}

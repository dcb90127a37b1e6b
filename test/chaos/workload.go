package chaos

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
)

const (
	requestTimeout = 5 * time.Second
	writers        = 8
	names          = 40 // per kind and namespace; few, so that names come back under new UIDs
	zipfSkew       = 1.2
	workNamespaces = 4
	largeBytes     = 1400 << 10
	shards         = 5   // what deletecollection selects by
	stay           = 200 // writes on one API server, on average
)

// Workload writes at random through the API servers. It keeps no account of what
// it did: that is the oracle's job.
type Workload struct {
	clients []dynamic.Interface // one per API server
	kinds   []*Kind             // those that are written
	weights int
	seed    uint64
	tokens  chan struct{} // one per write
	running sync.WaitGroup
	cancel  context.CancelFunc

	pause  sync.RWMutex // held for writing while nothing may be written
	writes atomic.Int64
	failed atomic.Int64
}

// StartWorkload begins to write at the rate, per second.
func StartWorkload(clients []dynamic.Interface, kinds []*Kind, seed uint64, rate int) *Workload {
	ctx, cancel := context.WithCancel(context.Background())
	w := &Workload{clients: clients, seed: seed, tokens: make(chan struct{}), cancel: cancel}
	for _, k := range kinds {
		if k.weight > 0 {
			w.kinds = append(w.kinds, k)
			w.weights += k.weight
		}
	}
	w.running.Go(func() { w.pace(ctx, rate) })
	for i := range writers {
		w.running.Go(func() { w.write(ctx, uint64(i)) })
	}
	return w
}

// Stop ends the writing and waits for what is in flight.
func (w *Workload) Stop() {
	w.cancel()
	w.running.Wait()
}

// Pause stops the writing until the returned function is called.
func (w *Workload) Pause() (resume func()) {
	w.pause.Lock()
	return w.pause.Unlock
}

// Writes returns how many writes succeeded and failed.
func (w *Workload) Writes() (succeeded, failed int64) { return w.writes.Load(), w.failed.Load() }

func (w *Workload) pace(ctx context.Context, rate int) {
	ticker := time.NewTicker(time.Second / time.Duration(rate))
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		select {
		case <-ctx.Done():
			return
		case w.tokens <- struct{}{}:
		}
	}
}

// writer is one of several that write at the same time, each with its own chance.
type writer struct {
	*Workload
	random *rand.Rand
	zipf   *rand.Zipf
	n      int
	number uint64
	client int // the API server that it talks to
}

func (w *Workload) write(ctx context.Context, number uint64) {
	random := rand.New(rand.NewPCG(w.seed, 100+number))
	x := &writer{Workload: w, random: random, zipf: rand.NewZipf(random, zipfSkew, 1, names-1), number: number, client: int(number)}
	for {
		select {
		case <-ctx.Done():
			return
		case <-w.tokens:
		}
		w.pause.RLock()
		err := x.step(ctx)
		w.pause.RUnlock()
		switch {
		case err == nil:
			w.writes.Add(1)
		case expected(err): // two writers met on one object
		default: // an API server is being tormented: try the other one
			w.failed.Add(1)
			x.client++
		}
	}
}

func expected(err error) bool {
	return apierrors.IsNotFound(err) || apierrors.IsAlreadyExists(err) || apierrors.IsConflict(err) || apierrors.IsInvalid(err) || apierrors.IsForbidden(err)
}

// step makes one write.
func (x *writer) step(ctx context.Context) error {
	x.n++
	if x.random.IntN(stay) == 0 {
		x.client++
	}
	client := x.clients[x.client%len(x.clients)]
	k := x.pick()
	namespace := ""
	if k.namespaced {
		namespace = fmt.Sprintf("chaos-%d", x.random.IntN(workNamespaces))
	}
	t := task{
		ctx: ctx, kind: k, namespace: namespace, name: fmt.Sprintf("%s-%d", strings.ToLower(k.kind), x.zipf.Uint64()),
		text: fmt.Sprintf("w%d-%d", x.number, x.n), client: client,
	}
	if namespace == "" {
		t.objects = client.Resource(k.gvr)
	} else {
		t.objects = client.Resource(k.gvr).Namespace(namespace)
	}
	if k.gvr.Resource == "events" && k.gvr.Group == "" {
		t.name = fmt.Sprintf("event-%s", t.text) // as in life: many, short-lived
	}
	return x.act(&t)
}

func (x *writer) pick() *Kind {
	n := x.random.IntN(x.weights)
	for _, k := range x.kinds {
		if n -= k.weight; n < 0 {
			return k
		}
	}
	return x.kinds[0]
}

// act does one of the things that happen to objects.
func (x *writer) act(t *task) error {
	switch n := x.random.IntN(1000); {
	case n < 450:
		return t.update("")
	case n < 550 && t.kind.status != nil:
		return t.status()
	case n < 580:
		return t.touch()
	case n < 700:
		return t.delete()
	case n < 740:
		return t.recreate()
	case n < 780:
		return t.finalizer()
	case n < 785:
		return t.deleteCollection(x.random.IntN(shards))
	case n < 787 && t.kind.custom && !t.kind.small:
		return t.large(x.random)
	case n < 788 && t.namespace != "":
		return t.deleteNamespace(x.Workload)
	case n < 792 && t.namespace != "":
		return t.relabelNamespace()
	default:
		return t.create(x.random.IntN(shards))
	}
}

// task is one write.
type task struct {
	ctx                   context.Context //nolint:containedctx // the task is a call with many parameters
	client                dynamic.Interface
	objects               dynamic.ResourceInterface
	kind                  *Kind
	namespace, name, text string
}

// create creates the object, or updates it if it is there.
func (t *task) create(shard int) error {
	o := t.kind.object(t.namespace, t.name, t.text)
	all := map[string]string{"shard": fmt.Sprint(shard)}
	maps.Copy(all, o.GetLabels())
	o.SetLabels(all)
	_, err := t.objects.Create(t.ctx, o, metav1.CreateOptions{})
	switch {
	case apierrors.IsAlreadyExists(err):
		return t.update("")
	case apierrors.IsNotFound(err) && t.namespace != "":
		ns := &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": t.namespace},
		}}
		ns.SetLabels(map[string]string{"tier": pick(t.text, "prod", "dev")})
		_, err = t.client.Resource(namespaces()).Create(t.ctx, ns, metav1.CreateOptions{})
	}
	return err
}

func (t *task) patch(patch string, subresources ...string) error {
	_, err := t.objects.Patch(t.ctx, t.name, types.MergePatchType, []byte(patch), metav1.PatchOptions{}, subresources...)
	return err
}

// update changes the object, or creates it.
func (t *task) update(patch string) error {
	if patch == "" {
		patch = t.kind.patch(t.text)
	}
	err := t.patch(patch)
	if apierrors.IsNotFound(err) {
		_, err = t.objects.Create(t.ctx, t.kind.object(t.namespace, t.name, t.text), metav1.CreateOptions{})
	}
	return err
}

func (t *task) status() error { return t.patch(t.kind.status(t.text), "status") }

// touch changes nothing, which makes no revision.
func (t *task) touch() error { return t.patch(`{}`) }

func (t *task) delete() error {
	now := int64(0)
	return t.objects.Delete(t.ctx, t.name, metav1.DeleteOptions{GracePeriodSeconds: &now})
}

// recreate leaves the least time between the end of one object and the beginning
// of the next of that name.
func (t *task) recreate() error {
	if err := t.delete(); err != nil && !apierrors.IsNotFound(err) {
		return err
	}
	_, err := t.objects.Create(t.ctx, t.kind.object(t.namespace, t.name, t.text), metav1.CreateOptions{})
	return err
}

// finalizer makes the end of an object take several revisions.
func (t *task) finalizer() error {
	if err := t.patch(`{"metadata":{"finalizers":["chaos.informd.dev/hold"]}}`); err != nil {
		return err
	}
	if err := t.delete(); err != nil {
		return err
	}
	if err := t.patch(fmt.Sprintf(`{"metadata":{"annotations":{"text":%q}}}`, t.text)); err != nil {
		return err
	}
	return t.patch(`{"metadata":{"finalizers":null}}`)
}

func (t *task) deleteCollection(shard int) error {
	return t.objects.DeleteCollection(t.ctx, metav1.DeleteOptions{}, metav1.ListOptions{LabelSelector: fmt.Sprintf("shard=%d", shard)})
}

// large makes the object as large as etcd takes it.
func (t *task) large(random *rand.Rand) error {
	var b strings.Builder
	for b.Len() < largeBytes {
		fmt.Fprintf(&b, "%016x", random.Uint64())
	}
	return t.update(fmt.Sprintf(`{"spec":{"large":%q,"text":%q}}`, b.String(), t.text))
}

// relabelNamespace gives the namespace a label, takes it away, or changes it.
func (t *task) relabelNamespace() error {
	patch := fmt.Sprintf(`{"metadata":{"labels":{"text":%q,"tier":%s}}}`, t.text, pick(t.text, `"prod"`, `"stage"`, `"dev"`, "null"))
	_, err := t.client.Resource(namespaces()).Patch(t.ctx, t.namespace, types.MergePatchType, []byte(patch), metav1.PatchOptions{})
	return err
}

// deleteNamespace plays the namespace controller: the namespace is marked, then
// emptied, then let go.
func (t *task) deleteNamespace(w *Workload) error {
	spaces := t.client.Resource(namespaces())
	if err := spaces.Delete(t.ctx, t.namespace, metav1.DeleteOptions{}); err != nil {
		return err
	}
	for _, k := range w.kinds {
		if !k.namespaced {
			continue
		}
		objects := t.client.Resource(k.gvr).Namespace(t.namespace)
		now := int64(0)
		_ = objects.DeleteCollection(t.ctx, metav1.DeleteOptions{GracePeriodSeconds: &now}, metav1.ListOptions{}) // a CRD may be gone
	}
	ns, err := spaces.Get(t.ctx, t.namespace, metav1.GetOptions{})
	if err != nil {
		return err
	}
	unstructured.RemoveNestedField(ns.Object, "spec", "finalizers")
	_, err = spaces.Update(t.ctx, ns, metav1.UpdateOptions{}, "finalize")
	return err
}

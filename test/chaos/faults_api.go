package chaos

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

func stopAPIServer(a *attack) error {
	i := a.random.IntN(len(a.servers))
	if err := a.servers[i].Stop(); err != nil {
		return err
	}
	return a.comeBack(i)
}

func killAPIServer(a *attack) error {
	i := a.random.IntN(len(a.servers))
	if err := a.servers[i].Kill(); err != nil {
		return err
	}
	return a.comeBack(i)
}

// comeBack sends informd to the other API server, as a load balancer would, and
// starts the one that is down.
func (a *attack) comeBack(i int) error {
	a.route.Down(i)
	defer a.route.Up(i)
	a.hold(0, 5*time.Second)
	return a.servers[i].Start(a.ctx)
}

func killBothAPIServers(a *attack) error {
	if err := a.killAPIServers(); err != nil {
		return err
	}
	a.hold(0, 5*time.Second)
	return a.startAPIServers()
}

func apiServersDownTwoMinutes(a *attack) error {
	if err := a.killAPIServers(); err != nil {
		return err
	}
	a.hold(2*time.Minute, 2*time.Minute)
	return a.startAPIServers()
}

func (a *attack) startAPIServers() error {
	errs := make([]error, len(a.servers))
	var both sync.WaitGroup
	for i, s := range a.servers {
		both.Go(func() { errs[i] = s.Start(a.ctx) })
	}
	both.Wait()
	return errors.Join(errs...)
}

// staleAPIServer cuts the second API server off from etcd without its noticing,
// and sends informd back and forth between the two.
func staleAPIServer(a *attack) error {
	a.etcdLink.Hold()
	for range 2 + a.random.IntN(4) {
		a.route.Prefer(1)
		a.route.Cut()
		a.hold(500*time.Millisecond, 3*time.Second)
		a.route.Prefer(0)
		a.route.Cut()
		a.hold(500*time.Millisecond, 3*time.Second)
	}
	a.etcdLink.Heal()
	return nil
}

func killEtcd(a *attack) error {
	if err := a.cluster.Etcd().Kill(); err != nil {
		return err
	}
	a.hold(0, 2*time.Second)
	return a.cluster.Etcd().Start(a.ctx)
}

// letNotice gives every watch the time to ask for etcd's revision while that is
// still lower than before.
func (a *attack) letNotice() error {
	a.hold(10*time.Second, 10*time.Second)
	if a.options.Baseline {
		return nil
	}
	return a.until(func(ctx context.Context) error {
		targets, err := a.informds[0].Targets(ctx)
		for _, t := range targets {
			if t.State != "live" {
				err = errors.Join(err, fmt.Errorf("%s is %s", t.Target, t.State))
			}
		}
		return err
	})
}

// define creates a custom resource's definition and waits until it is served.
func (r *Rig) define(ctx context.Context, k *Kind) error {
	if _, err := r.dynamic[0].Resource(definitions()).Create(ctx, k.definition(0), metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
		return err
	}
	ticker := time.NewTicker(retryPause)
	defer ticker.Stop()
	for {
		_, err := r.dynamic[0].Resource(k.gvr).List(ctx, metav1.ListOptions{Limit: 1})
		if err == nil {
			return nil
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return fmt.Errorf("%s is not served: %w: %w", k.crd(), ctx.Err(), err)
		}
	}
}

func (r *Rig) kind(plural string) *Kind {
	for _, k := range r.kinds {
		if k.gvr.Resource == plural {
			return k
		}
	}
	return nil
}

// recreateCRD removes a custom resource with all its objects, and brings it back.
func recreateCRD(a *attack) error {
	k := a.kind("comets")
	if err := a.until(func(ctx context.Context) error {
		err := a.dynamic[0].Resource(definitions()).Delete(ctx, k.crd(), metav1.DeleteOptions{})
		if err != nil && !apierrors.IsNotFound(err) {
			return err
		}
		return a.gone(ctx, k)
	}); err != nil {
		return err
	}
	a.hold(0, 4*time.Second)
	return a.until(func(ctx context.Context) error { return a.define(ctx, k) })
}

// gone succeeds once the definition is. Objects that a cut-off write left with a
// finalizer would keep it.
func (a *attack) gone(ctx context.Context, k *Kind) error {
	_, err := a.dynamic[0].Resource(definitions()).Get(ctx, k.crd(), metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return err
	}
	list, err := a.dynamic[0].Resource(k.gvr).List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	for _, o := range list.Items {
		if len(o.GetFinalizers()) > 0 {
			_, _ = a.dynamic[0].Resource(k.gvr).Namespace(o.GetNamespace()).Patch(ctx, o.GetName(), types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{})
		}
	}
	return fmt.Errorf("%s is still there", k.crd())
}

// editCRD changes a schema, which ends the API server's watches of the resource.
func editCRD(a *attack) error {
	k := a.kind("gadgets")
	for range 1 + a.random.IntN(4) {
		patch := fmt.Sprintf(`[{"op":"replace","path":"/spec/versions/0/schema/openAPIV3Schema/description","value":"edition %d"}]`, a.random.IntN(1<<20))
		if err := a.until(func(ctx context.Context) error {
			_, err := a.dynamic[0].Resource(definitions()).Patch(ctx, k.crd(), types.JSONPatchType, []byte(patch), metav1.PatchOptions{})
			return err
		}); err != nil {
			return err
		}
		a.hold(0, 2*time.Second)
	}
	return nil
}

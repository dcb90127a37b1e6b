package chaos

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
)

// tenantUser may do in one namespace what the built-in ClusterRole admin permits there, and
// nothing else. A controller that most runs lack copies the rules to admin from three other
// ClusterRoles, so the tenant has these.
const tenantUser = "hostile-tenant"

// largeHistoryFault fills a part of the journal, which has a small limit for it.
const largeHistoryFault = "N25-tenant-large-history"

// tenantNamespace has the longest name that a namespace can have.
func tenantNamespace() string { return "tenant-" + strings.Repeat("n", 63-len("tenant-")) }

// tenantFaults are what a tenant can do to all others with the rights of one namespace.
func tenantFaults() []*fault {
	tenant := []string{"tenant"}
	return []*fault{
		{"N25-tenant-long-name", tenant, needsInformd, asTenant(longNames)},
		{largeHistoryFault, tenant, needsShares, asTenant(largeHistory)},
		{"N25-tenant-secrets", tenant, needsInformd, asTenant(copiedSecrets)},
		{"N25-tenant-hostile-text", tenant, needsInformd, asTenant(hostileTexts)},
		{"N25-tenant-short-lived", tenant, needsInformd, asTenant(shortLived)},
	}
}

func needsShares(r *Rig) string {
	if r.options.Journal == JournalMemory {
		return "a memory journal has no shares of space"
	}
	return needsInformd(r)
}

// tenant is a strike of the tenant.
type tenant struct {
	*attack
	n int // texts so far
}

func asTenant(strike func(*tenant) error) func(*attack) error {
	return func(a *attack) error {
		if err := a.until(a.admitTenant); err != nil {
			return err
		}
		return strike(&tenant{attack: a})
	}
}

// addTenant makes the tenant's clients, one per API server.
func (r *Rig) addTenant() error {
	user, err := r.cluster.AddUser(tenantUser)
	if err != nil {
		return err
	}
	for _, host := range r.hosts {
		config := user.RESTConfig()
		config.Host, config.Timeout = "https://"+host, requestTimeout
		client, err := dynamic.NewForConfig(config)
		if err != nil {
			return err
		}
		r.tenant = append(r.tenant, client)
	}
	return nil
}

// admitTenant creates the tenant's namespace and makes the tenant its admin. A restore of
// etcd can take both back.
func (r *Rig) admitTenant(ctx context.Context) error {
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: tenantNamespace()}}
	if _, err := r.rbac.CoreV1().Namespaces().Create(ctx, namespace, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
		return err
	}
	for _, role := range []string{"system:aggregate-to-admin", "system:aggregate-to-edit", "system:aggregate-to-view"} {
		binding := &rbacv1.RoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: role},
			Subjects:   []rbacv1.Subject{{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: tenantUser}},
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role},
		}
		_, err := r.rbac.RbacV1().RoleBindings(tenantNamespace()).Create(ctx, binding, metav1.CreateOptions{})
		if err != nil && !apierrors.IsAlreadyExists(err) {
			return err
		}
	}
	return nil
}

// over reports whether the time of the run is over.
func (t *tenant) over() bool {
	select {
	case <-t.end:
		return true
	default:
		return false
	}
}

// text is a text that no other object has.
func (t *tenant) text() string {
	t.n++
	return fmt.Sprintf("t%d-%08x", t.n, t.random.Uint32())
}

func tenantConfigMaps() schema.GroupVersionResource {
	return schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}
}

func tenantSecrets() schema.GroupVersionResource {
	return schema.GroupVersionResource{Version: "v1", Resource: "secrets"}
}

func tenantRoles() schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: rbacv1.GroupName, Version: "v1", Resource: "roles"}
}

// tenantObject is a new object of the tenant.
func tenantObject(kind, name string, fields map[string]any) *unstructured.Unstructured {
	o := &unstructured.Unstructured{Object: map[string]any{}}
	maps.Copy(o.Object, fields)
	o.SetAPIVersion("v1")
	if kind == "Role" {
		o.SetAPIVersion(rbacv1.GroupName + "/v1")
		o.Object["rules"] = []any{}
	}
	o.SetKind(kind)
	o.SetName(name)
	o.SetNamespace(tenantNamespace())
	return o
}

// write makes a write as the tenant, and repeats what other faults make fail. A refusal of
// the content is an error of this fault.
func (t *tenant) write(gvr schema.GroupVersionResource, do func(context.Context, dynamic.ResourceInterface) error) error {
	server := t.random.IntN(len(t.tenant))
	var refused error
	err := t.until(func(ctx context.Context) error {
		server++
		err := do(ctx, t.tenant[server%len(t.tenant)].Resource(gvr).Namespace(tenantNamespace()))
		switch {
		case apierrors.IsInvalid(err), apierrors.IsBadRequest(err), apierrors.IsRequestEntityTooLargeError(err):
			refused = err
			return nil
		case apierrors.IsAlreadyExists(err), apierrors.IsNotFound(err), apierrors.IsConflict(err):
			return nil // the answer to an earlier attempt was lost
		default:
			return err
		}
	})
	return errors.Join(err, refused)
}

func (t *tenant) create(gvr schema.GroupVersionResource, o *unstructured.Unstructured) error {
	return t.write(gvr, func(ctx context.Context, objects dynamic.ResourceInterface) error {
		_, err := objects.Create(ctx, o.DeepCopy(), metav1.CreateOptions{})
		return err
	})
}

// replace updates the object to a new content, or creates it.
func (t *tenant) replace(gvr schema.GroupVersionResource, o *unstructured.Unstructured) error {
	return t.write(gvr, func(ctx context.Context, objects dynamic.ResourceInterface) error {
		_, err := objects.Update(ctx, o.DeepCopy(), metav1.UpdateOptions{})
		if apierrors.IsNotFound(err) {
			_, err = objects.Create(ctx, o.DeepCopy(), metav1.CreateOptions{})
		}
		return err
	})
}

func (t *tenant) patch(gvr schema.GroupVersionResource, name, patch string) error {
	return t.write(gvr, func(ctx context.Context, objects dynamic.ResourceInterface) error {
		_, err := objects.Patch(ctx, name, types.MergePatchType, []byte(patch), metav1.PatchOptions{})
		return err
	})
}

// label changes a label of the object.
func (t *tenant) label(gvr schema.GroupVersionResource, name string) error {
	return t.patch(gvr, name, fmt.Sprintf(`{"metadata":{"labels":{"text":%q}}}`, t.text()))
}

func (t *tenant) delete(gvr schema.GroupVersionResource, name string) error {
	return t.write(gvr, func(ctx context.Context, objects dynamic.ResourceInterface) error {
		return objects.Delete(ctx, name, metav1.DeleteOptions{})
	})
}

// wants reports whether the run has a fault of that name.
func (o *Options) wants(name string) bool {
	id, _, _ := strings.Cut(name, "-")
	return len(o.Faults) == 0 || slices.Contains(o.Faults, name) || slices.Contains(o.Faults, id)
}

// journalBytes is the limit of a journal that the tenant can fill: space for the objects
// of all and for their deletions, which stay. The history of the tenant must go.
func (o *Options) journalBytes() string {
	if !o.wants(largeHistoryFault) {
		return ""
	}
	return fmt.Sprintf(", maxBytes: %dMiB", 24+12*int(o.Duration/time.Minute))
}

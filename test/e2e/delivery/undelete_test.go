package delivery_test

import (
	"fmt"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/restmapper"
	"sigs.k8s.io/yaml"

	"github.com/informd/informd/test/cluster"
	"github.com/informd/informd/test/e2e"
)

// manifests are objects of 24 built-in kinds, and of a custom one, one a line.
const manifests = `
{apiVersion: v1, kind: ConfigMap, metadata: {name: a, labels: {l: "1"}}, data: {k: v}, binaryData: {b: AAE=}}
{apiVersion: v1, kind: Secret, metadata: {name: a}, type: Opaque, data: {password: Y2FuYXJ5LXZhbHVl}}
{apiVersion: v1, kind: ServiceAccount, metadata: {name: a}, automountServiceAccountToken: false}
{apiVersion: v1, kind: Service, metadata: {name: a}, spec: {type: NodePort, selector: {app: a}, ports: [{port: 80, targetPort: 8080}]}}
{apiVersion: v1, kind: Service, metadata: {name: headless}, spec: {clusterIP: None, selector: {app: a}, ports: [{port: 80}]}}
{apiVersion: v1, kind: Pod, metadata: {name: a}, spec: {nodeName: gone, containers: [{name: c, image: "example.com/c:1"}]}}
{apiVersion: v1, kind: PersistentVolumeClaim, metadata: {name: a}, spec: {volumeName: gone, accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}}
{apiVersion: v1, kind: PersistentVolume, metadata: {name: a}, spec: {capacity: {storage: 1Gi}, accessModes: [ReadWriteOnce], hostPath: {path: /tmp/a}, claimRef: {namespace: default, name: a, uid: gone}}}
{apiVersion: v1, kind: LimitRange, metadata: {name: a}, spec: {limits: [{type: Container, max: {cpu: "4"}}]}}
{apiVersion: v1, kind: ResourceQuota, metadata: {name: a}, spec: {hard: {secrets: "100"}}}
{apiVersion: v1, kind: ReplicationController, metadata: {name: a}, spec: {replicas: 0, selector: {app: r}, template: {metadata: {labels: {app: r}}, spec: {containers: [{name: c, image: "example.com/c:1"}]}}}}
{apiVersion: apps/v1, kind: Deployment, metadata: {name: a, annotations: {deployment.kubernetes.io/revision: "4"}}, spec: {selector: {matchLabels: {app: a}}, template: {metadata: {labels: {app: a}}, spec: {containers: [{name: c, image: "example.com/c:1"}]}}}}
{apiVersion: apps/v1, kind: StatefulSet, metadata: {name: a}, spec: {serviceName: a, selector: {matchLabels: {app: a}}, template: {metadata: {labels: {app: a}}, spec: {containers: [{name: c, image: "example.com/c:1"}]}}}}
{apiVersion: apps/v1, kind: DaemonSet, metadata: {name: a}, spec: {selector: {matchLabels: {app: a}}, template: {metadata: {labels: {app: a}}, spec: {containers: [{name: c, image: "example.com/c:1"}]}}}}
{apiVersion: apps/v1, kind: ReplicaSet, metadata: {name: a, ownerReferences: [{apiVersion: apps/v1, kind: Deployment, name: gone, uid: gone, controller: true}]}, spec: {selector: {matchLabels: {app: s}}, template: {metadata: {labels: {app: s}}, spec: {containers: [{name: c, image: "example.com/c:1"}]}}}}
{apiVersion: batch/v1, kind: Job, metadata: {name: a}, spec: {template: {spec: {restartPolicy: Never, containers: [{name: c, image: "example.com/c:1"}]}}}}
{apiVersion: batch/v1, kind: CronJob, metadata: {name: a}, spec: {schedule: "0 * * * *", jobTemplate: {spec: {template: {spec: {restartPolicy: Never, containers: [{name: c, image: "example.com/c:1"}]}}}}}}
{apiVersion: networking.k8s.io/v1, kind: Ingress, metadata: {name: a}, spec: {defaultBackend: {service: {name: a, port: {number: 80}}}}}
{apiVersion: networking.k8s.io/v1, kind: NetworkPolicy, metadata: {name: a}, spec: {podSelector: {}, policyTypes: [Ingress]}}
{apiVersion: rbac.authorization.k8s.io/v1, kind: Role, metadata: {name: a}, rules: [{apiGroups: [""], resources: [pods], verbs: [get]}]}
{apiVersion: rbac.authorization.k8s.io/v1, kind: RoleBinding, metadata: {name: a}, roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: a}, subjects: [{kind: ServiceAccount, name: a, namespace: default}]}
{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRole, metadata: {name: a}, rules: [{apiGroups: [""], resources: [pods], verbs: [get]}]}
{apiVersion: storage.k8s.io/v1, kind: StorageClass, metadata: {name: a}, provisioner: example.com/p}
{apiVersion: scheduling.k8s.io/v1, kind: PriorityClass, metadata: {name: a}, value: 7}
{apiVersion: policy/v1, kind: PodDisruptionBudget, metadata: {name: a}, spec: {minAvailable: 1, selector: {matchLabels: {app: a}}}}
{apiVersion: autoscaling/v2, kind: HorizontalPodAutoscaler, metadata: {name: a}, spec: {scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: a}, maxReplicas: 3}}
{apiVersion: coordination.k8s.io/v1, kind: Lease, metadata: {name: a}, spec: {holderIdentity: someone}}
{apiVersion: e2e.example.com/v1, kind: Gadget, metadata: {name: a, finalizers: [example.com/stays]}, spec: {n: 1, zero: 1.5}}
`

// TestUndelete: what the command prints of a deleted object makes it again, in the real API
// server, without values of Secrets.
func TestUndelete(t *testing.T) {
	c := cluster.Start(t, cluster.Options{})
	client := dynamic.NewForConfigOrDie(e2e.Fast(c.RESTConfig()))
	e2e.CustomKind("gadgets", false).Install(t, client)
	mapper := restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(discovery.NewDiscoveryClientForConfigOrDie(c.RESTConfig())))
	resources := make(map[string]bool)
	var objects []*unstructured.Unstructured
	for text := range strings.Lines(strings.TrimSpace(manifests)) {
		object := new(unstructured.Unstructured)
		if err := yaml.Unmarshal([]byte(text), &object.Object); err != nil {
			t.Fatalf("%v: %s", err, text)
		}
		objects = append(objects, object)
		name, _ := find(t, client, mapper, object)
		resources["- "+name] = true
	}
	var list []string
	for r := range resources {
		list = append(list, r)
	}
	d := e2e.NewInformd(t, e2e.Setup{Kubeconfig: c.Kubeconfig(), Resources: strings.Join(list, "\n"), Journal: e2e.LogJournal})
	d.Start()
	d.WaitForSync(len(resources))

	for _, object := range objects {
		_, r := find(t, client, mapper, object)
		if _, err := r.Create(t.Context(), object, metav1.CreateOptions{}); err != nil {
			t.Fatalf("create %s: %v", object.GetKind(), err)
		}
		zero := int64(0)
		if err := r.Delete(t.Context(), object.GetName(), metav1.DeleteOptions{GracePeriodSeconds: &zero}); err != nil {
			t.Fatalf("delete %s: %v", object.GetKind(), err)
		}
		// No controllers run that remove finalizers.
		_, err := r.Patch(t.Context(), object.GetName(), types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{})
		if err != nil && !apierrors.IsNotFound(err) {
			t.Fatalf("finish %s: %v", object.GetKind(), err)
		}
	}
	e2e.Eventually(t, "all deletions", func() bool { return e2e.Count(d.Records(), "deleted") >= len(objects) })
	for _, object := range objects {
		name, r := find(t, client, mapper, object)
		path := name + "/" + object.GetName()
		if object.GetNamespace() != "" {
			path = name + "/" + object.GetNamespace() + "/" + object.GetName()
		}
		t.Run(object.GetKind()+" "+object.GetName(), func(t *testing.T) {
			text := d.Must("undelete", path)
			again := new(unstructured.Unstructured)
			if err := yaml.Unmarshal([]byte(text), &again.Object); err != nil {
				t.Fatalf("%v:\n%s", err, text)
			}
			made, err := r.Create(t.Context(), again, metav1.CreateOptions{FieldValidation: metav1.FieldValidationStrict})
			if err != nil {
				t.Fatalf("%v:\n%s", err, text)
			}
			if len(made.GetOwnerReferences()) > 0 {
				t.Errorf("it has an owner that is gone:\n%s", text)
			}
			switch object.GetKind() {
			case "Secret":
				if strings.Contains(text, e2e.Canary) || !strings.Contains(text, "# informd redacted these values, so they are missing: data.password.") {
					t.Errorf("of a Secret undelete prints\n%s", text)
				}
			case "ReplicaSet":
				if !strings.Contains(text, "# It had an owner.") {
					t.Errorf("of an object with an owner undelete prints\n%s", text)
				}
			case "ConfigMap":
				want := fmt.Sprint(object.Object["data"], object.Object["binaryData"], object.GetLabels())
				if got := fmt.Sprint(made.Object["data"], made.Object["binaryData"], made.GetLabels()); got != want {
					t.Errorf("the ConfigMap has %s, had %s", got, want)
				}
			}
		})
	}
	e2e.Eventually(t, "the object exists", func() bool {
		text, code := d.Command("undelete", "configmaps/default/a")
		return code == 1 && strings.Contains(text, "it exists")
	})
}

// find returns the name of the object's resource as kubectl has it, and where to write it.
func find(t *testing.T, client dynamic.Interface, mapper meta.RESTMapper, object *unstructured.Unstructured) (string, dynamic.ResourceInterface) {
	t.Helper()
	mapping, err := mapper.RESTMapping(object.GroupVersionKind().GroupKind(), object.GroupVersionKind().Version)
	e2e.Must(t, err)
	name := schema.GroupResource{Group: mapping.Resource.Group, Resource: mapping.Resource.Resource}.String()
	if mapping.Scope.Name() != meta.RESTScopeNameNamespace {
		return name, client.Resource(mapping.Resource)
	}
	object.SetNamespace("default")
	return name, client.Resource(mapping.Resource).Namespace("default")
}

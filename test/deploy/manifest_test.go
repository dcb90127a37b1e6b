package deploy_test

import (
	"maps"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"
)

// manifest is one decoded object and the file it stands in.
type manifest struct {
	path   string
	object metav1.Object
}

// newObject returns an empty object of the kind, or nil.
func newObject(m metav1.TypeMeta) metav1.Object {
	switch m.APIVersion + " " + m.Kind {
	case "v1 Namespace":
		return &corev1.Namespace{}
	case "v1 ServiceAccount":
		return &corev1.ServiceAccount{}
	case "v1 ConfigMap":
		return &corev1.ConfigMap{}
	case "v1 Service":
		return &corev1.Service{}
	case "apps/v1 StatefulSet":
		return &appsv1.StatefulSet{}
	case "apps/v1 Deployment":
		return &appsv1.Deployment{}
	case "policy/v1 PodDisruptionBudget":
		return &policyv1.PodDisruptionBudget{}
	case "networking.k8s.io/v1 NetworkPolicy":
		return &networkingv1.NetworkPolicy{}
	case "rbac.authorization.k8s.io/v1 ClusterRole":
		return &rbacv1.ClusterRole{}
	case "rbac.authorization.k8s.io/v1 ClusterRoleBinding":
		return &rbacv1.ClusterRoleBinding{}
	case "rbac.authorization.k8s.io/v1 Role":
		return &rbacv1.Role{}
	case "rbac.authorization.k8s.io/v1 RoleBinding":
		return &rbacv1.RoleBinding{}
	default:
		return nil
	}
}

// decodeManifests decodes every object of a YAML stream, which path names.
func decodeManifests(t *testing.T, path string, stream []byte) []manifest {
	t.Helper()
	var all []manifest
	for _, document := range documents(stream) {
		var header metav1.TypeMeta
		if err := yaml.Unmarshal(document, &header); err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		if strings.HasPrefix(header.APIVersion, "monitoring.coreos.com/") {
			continue // this module has no types for them
		}
		object := newObject(header)
		if object == nil {
			t.Fatalf("%s: %s %s: no test knows this kind", path, header.APIVersion, header.Kind)
		}
		decodeStrictly(t, path, document, object)
		if object.GetName() == "" {
			t.Errorf("%s: %s has no name", path, header.Kind)
		}
		all = append(all, manifest{path, object})
	}
	return all
}

// find returns the objects of one type.
func find[T metav1.Object](d deployment) []T {
	var all []T
	for _, m := range d.manifests {
		if object, ok := m.object.(T); ok {
			all = append(all, object)
		}
	}
	return all
}

// workload is what makes pods.
type workload struct {
	name     string
	labels   map[string]string
	selector *metav1.LabelSelector
	pod      corev1.PodSpec
	claims   []corev1.PersistentVolumeClaim
}

func workloads(d deployment) []workload {
	var all []workload
	for _, s := range find[*appsv1.StatefulSet](d) {
		all = append(all, workload{
			name: s.Name, labels: s.Spec.Template.Labels, selector: s.Spec.Selector,
			pod: s.Spec.Template.Spec, claims: s.Spec.VolumeClaimTemplates,
		})
	}
	for _, s := range find[*appsv1.Deployment](d) {
		all = append(all, workload{
			name: s.Name, labels: s.Spec.Template.Labels, selector: s.Spec.Selector, pod: s.Spec.Template.Spec,
		})
	}
	return all
}

// containers are all of a pod's, those that start first included.
func containers(pod corev1.PodSpec) []corev1.Container {
	return slices.Concat(pod.InitContainers, pod.Containers)
}

// selects reports whether a plain selector matches labels. An empty one
// matches everything.
func selects(selector, labels map[string]string) bool {
	for key, value := range selector {
		if labels[key] != value {
			return false
		}
	}
	return true
}

// The API server refuses some of these mistakes and silently accepts others: a
// Service whose selector is wrong has no endpoints and no error.
func TestReferencesHold(t *testing.T) {
	eachKustomization(t, func(t *testing.T, d deployment) {
		accounts := make(map[string]bool)
		for _, a := range find[*corev1.ServiceAccount](d) {
			accounts[a.Name] = true
		}
		for _, w := range workloads(d) {
			if len(w.selector.MatchLabels) == 0 || !selects(w.selector.MatchLabels, w.labels) {
				t.Errorf("%s: selector %v does not match the pod's labels %v", w.name, w.selector.MatchLabels, w.labels)
			}
			if name := w.pod.ServiceAccountName; name != "" && !accounts[name] {
				t.Errorf("%s: service account %s is not defined", w.name, name)
			}
			checkVolumes(t, d, w)
		}
		for _, s := range find[*corev1.Service](d) {
			checkService(t, d, s)
		}
	})
}

// With OrderedReady, a Pod that is not ready blocks the update that repairs it.
func TestUpdatesReachUnreadyPods(t *testing.T) {
	eachKustomization(t, func(t *testing.T, d deployment) {
		for _, s := range find[*appsv1.StatefulSet](d) {
			if s.Spec.PodManagementPolicy != appsv1.ParallelPodManagement {
				t.Errorf("%s: podManagementPolicy is %q, want %s", s.Name, s.Spec.PodManagementPolicy, appsv1.ParallelPodManagement)
			}
		}
	})
}

func checkVolumes(t *testing.T, d deployment, w workload) {
	t.Helper()
	volumes := make(map[string]bool)
	for _, c := range w.claims {
		volumes[c.Name] = false
	}
	for _, v := range w.pod.Volumes {
		volumes[v.Name] = false
		if v.ConfigMap != nil && d.configMap(v.ConfigMap.Name) == nil {
			t.Errorf("%s: volume %s: config map %s is not generated", w.name, v.Name, v.ConfigMap.Name)
		}
	}
	for _, c := range containers(w.pod) {
		for _, m := range c.VolumeMounts {
			if _, ok := volumes[m.Name]; !ok {
				t.Errorf("%s: container %s mounts %s, which is no volume", w.name, c.Name, m.Name)
			}
			volumes[m.Name] = true
		}
	}
	for _, name := range slices.Sorted(maps.Keys(volumes)) {
		if !volumes[name] {
			t.Errorf("%s: volume %s is mounted nowhere", w.name, name)
		}
	}
}

func checkService(t *testing.T, d deployment, s *corev1.Service) {
	t.Helper()
	for _, w := range workloads(d) {
		if !selects(s.Spec.Selector, w.labels) {
			continue
		}
		for _, p := range s.Spec.Ports {
			if _, ok := namedPort(w.pod, p.TargetPort.StrVal); !ok {
				t.Errorf("service %s: port %s: %s has no port named %q", s.Name, p.Name, w.name, p.TargetPort.StrVal)
			}
		}
		return
	}
	t.Errorf("service %s: selector %v matches no pod", s.Name, s.Spec.Selector)
}

// namedPort returns the number of a container port.
func namedPort(pod corev1.PodSpec, name string) (int32, bool) {
	for _, c := range containers(pod) {
		for _, p := range c.Ports {
			if p.Name == name {
				return p.ContainerPort, true
			}
		}
	}
	return 0, false
}

// All objects with a namespace are in the one of the deployment, which enforces restricted Pods.
func TestNamespaces(t *testing.T) {
	eachKustomization(t, func(t *testing.T, d deployment) {
		for _, m := range d.manifests {
			if ns := m.object.GetNamespace(); ns != "" && ns != d.namespace {
				t.Errorf("%s: namespace %s, not %s", m.object.GetName(), ns, d.namespace)
			}
		}
		for _, ns := range find[*corev1.Namespace](d) {
			if level := ns.Labels["pod-security.kubernetes.io/enforce"]; level != "restricted" {
				t.Errorf("namespace %s: pod security %q, not restricted", ns.Name, level)
			}
		}
	})
}

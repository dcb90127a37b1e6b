package corpus

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// podShapes is how many different Pods there are.
const podShapes = 64

// Pods are the Pods of Deployments as a cluster shows them once they run.
func Pods() (*Corpus, error) {
	r := rand.New(rand.NewPCG(20, 26))
	c := &Corpus{Resource: schema.GroupVersionResource{Version: "v1", Resource: "pods"}, Kind: "Pod"}
	for n := range podShapes {
		p, err := pod(r, n)
		if err != nil {
			return nil, err
		}
		t, err := newTemplate(p)
		if err != nil {
			return nil, fmt.Errorf("make Pod %d: %w", n, err)
		}
		c.templates = append(c.templates, t)
	}
	return c, nil
}

// began is when every object was created.
func began() metav1.Time {
	return metav1.Time{Time: time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)}
}

// identified is the metadata that tells an object apart.
func identified(prefix string) metav1.ObjectMeta {
	return metav1.ObjectMeta{
		Name: prefix + indexSlot.placeholder(), Namespace: "ns-" + namespaceSlot.placeholder(),
		UID:             types.UID("6f1c9a52-7d3e-4b80-9c14-0b5e" + indexSlot.placeholder()),
		ResourceVersion: revisionSlot.placeholder(), Generation: 1, CreationTimestamp: began(),
		Annotations: map[string]string{SentAnnotation: sentSlot.placeholder()},
	}
}

func pod(r *rand.Rand, n int) (*corev1.Pod, error) {
	app := fmt.Sprintf("%s-%s", pick(r, "checkout", "catalogue", "payments", "search", "gateway", "ledger"), pick(r, "api", "worker", "web", "cache"))
	p := &corev1.Pod{
		TypeMeta:   metav1.TypeMeta{Kind: "Pod", APIVersion: "v1"},
		ObjectMeta: identified(fmt.Sprintf("%s-%08x-", app, 0x5bc7f600+n)),
	}
	p.GenerateName = fmt.Sprintf("%s-%08x-", app, 0x5bc7f600+n)
	p.Labels = map[string]string{
		"app.kubernetes.io/name": app, "app.kubernetes.io/instance": app + "-prod", "app.kubernetes.io/version": fmt.Sprintf("2.%d.%d", n, r.IntN(30)),
		"pod-template-hash": fmt.Sprintf("%08x", 0x5bc7f600+n), "team": pick(r, "commerce", "platform", "data"),
	}
	if r.IntN(2) == 0 {
		p.Labels["topology.kubernetes.io/zone"] = "eu-central-1" + pick(r, "a", "b", "c")
	}
	p.Annotations["kubectl.kubernetes.io/restartedAt"] = "2026-10-30T09:12:44Z"
	if r.IntN(2) == 0 {
		p.Annotations["prometheus.io/scrape"], p.Annotations["prometheus.io/port"] = "true", "9090"
		p.Annotations["checksum/config"] = fmt.Sprintf("%016x%016x%016x%016x", r.Uint64(), r.Uint64(), r.Uint64(), r.Uint64())
	}
	p.Annotations["vault.example.com/agent-inject-template"] = strings.Repeat("{{ with secret \"database/creds/"+app+"\" }}user={{ .Data.username }}{{ end }}\n", 1+r.IntN(2))
	yes := true
	p.OwnerReferences = []metav1.OwnerReference{{
		APIVersion: "apps/v1", Kind: "ReplicaSet", Name: p.GenerateName[:len(p.GenerateName)-1],
		UID: types.UID(fmt.Sprintf("0d9b6a1e-35f2-4f0a-8a1b-%012x", r.Uint64()>>16)), Controller: &yes, BlockOwnerDeletion: &yes,
	}}
	fillSpec(r, p, app)
	fillStatus(r, p)
	created, err := managedBy("kube-controller-manager", "", p, "metadata", "spec")
	if err != nil {
		return nil, err
	}
	running, err := managedBy("kubelet", "status", p, "status")
	if err != nil {
		return nil, err
	}
	p.ManagedFields = []metav1.ManagedFieldsEntry{created, running}
	return p, nil
}

func fillSpec(r *rand.Rand, p *corev1.Pod, app string) {
	grace, mode, seconds, priority := int64(30), int32(420), int64(300), int32(0)
	expiry, no, preempt := int64(3607), true, corev1.PreemptLowerPriority
	token := corev1.Volume{Name: "kube-api-access-x7k2p", VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{
		DefaultMode: &mode, Sources: []corev1.VolumeProjection{
			{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{ExpirationSeconds: &expiry, Path: "token"}},
			{ConfigMap: &corev1.ConfigMapProjection{LocalObjectReference: corev1.LocalObjectReference{Name: "kube-root-ca.crt"}, Items: []corev1.KeyToPath{{Key: "ca.crt", Path: "ca.crt"}}}},
		},
	}}}
	p.Spec = corev1.PodSpec{
		Volumes: []corev1.Volume{token}, RestartPolicy: corev1.RestartPolicyAlways, TerminationGracePeriodSeconds: &grace,
		DNSPolicy: corev1.DNSClusterFirst, ServiceAccountName: app, DeprecatedServiceAccount: app, NodeName: fmt.Sprintf("ip-10-20-%d-%d.eu-central-1.compute.internal", r.IntN(256), r.IntN(256)),
		SecurityContext: &corev1.PodSecurityContext{RunAsNonRoot: &no}, SchedulerName: "default-scheduler", Priority: &priority, EnableServiceLinks: &no, PreemptionPolicy: &preempt,
		Tolerations: []corev1.Toleration{
			{Key: "node.kubernetes.io/not-ready", Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute, TolerationSeconds: &seconds},
			{Key: "node.kubernetes.io/unreachable", Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute, TolerationSeconds: &seconds},
		},
	}
	for i := range r.IntN(2) {
		name := fmt.Sprintf("%s-config-%d", app, i)
		p.Spec.Volumes = append(p.Spec.Volumes, corev1.Volume{Name: name, VolumeSource: corev1.VolumeSource{
			ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: name}, DefaultMode: &mode},
		}})
	}
	for i := range 1 + r.IntN(4)/3 {
		p.Spec.Containers = append(p.Spec.Containers, container(r, p, []string{app, "istio-proxy"}[i]))
	}
}

func container(r *rand.Rand, p *corev1.Pod, name string) corev1.Container {
	port, portName := int32(8080+r.IntN(100)), "http"
	sidecar := len(p.Spec.Containers) > 0
	if sidecar {
		portName = "metrics"
	}
	c := corev1.Container{
		Name: name, Image: fmt.Sprintf("registry.example.com/%s:v2.%d.%d", name, r.IntN(40), r.IntN(20)), ImagePullPolicy: corev1.PullIfNotPresent,
		Args:  []string{"serve", "--listen=:" + fmt.Sprint(port), "--log-format=json", "--cluster=prod-eu1", "--trace-endpoint=otel-collector.observability.svc.cluster.local:4317", "--shutdown-grace=25s"},
		Ports: []corev1.ContainerPort{{Name: portName, ContainerPort: port, Protocol: corev1.ProtocolTCP}},
		Resources: corev1.ResourceRequirements{
			Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("250m"), corev1.ResourceMemory: resource.MustParse("256Mi")},
			Limits:   corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("512Mi")},
		},
		TerminationMessagePath: "/dev/termination-log", TerminationMessagePolicy: corev1.TerminationMessageReadFile,
	}
	variables := 1 + r.IntN(5)
	if sidecar {
		c.Args, variables = c.Args[:3], 0
	}
	for i := range variables {
		e := corev1.EnvVar{Name: fmt.Sprintf("%s_%d", pick(r, "DATABASE_URL", "FEATURE_FLAGS", "UPSTREAM", "TIMEOUT"), i), Value: fmt.Sprintf("https://%s-%d.prod.svc.cluster.internal.example.com:8443/v1?timeout=%ds&retries=3&zone=eu-central-1", name, r.IntN(100), r.IntN(30))}
		if r.IntN(4) == 0 {
			e.Value, e.ValueFrom = "", &corev1.EnvVarSource{SecretKeyRef: &corev1.SecretKeySelector{LocalObjectReference: corev1.LocalObjectReference{Name: name + "-secrets"}, Key: e.Name}}
		}
		c.Env = append(c.Env, e)
	}
	probe := func(path string) *corev1.Probe {
		return &corev1.Probe{
			ProbeHandler:   corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Path: path, Port: intstr.FromString(portName), Scheme: corev1.URISchemeHTTP}},
			TimeoutSeconds: 1, PeriodSeconds: 10, SuccessThreshold: 1, FailureThreshold: 3,
		}
	}
	c.ReadinessProbe = probe("/readyz")
	if !sidecar {
		c.LivenessProbe = probe("/healthz")
	}
	for i, v := range p.Spec.Volumes {
		if sidecar && i > 0 {
			break
		}
		path := "/etc/" + v.Name
		if v.Projected != nil {
			path = "/var/run/secrets/kubernetes.io/serviceaccount"
		}
		c.VolumeMounts = append(c.VolumeMounts, corev1.VolumeMount{Name: v.Name, ReadOnly: true, MountPath: path})
	}
	return c
}

func fillStatus(r *rand.Rand, p *corev1.Pod) {
	ip := fmt.Sprintf("10.%d.%d.%d", 32+r.IntN(32), r.IntN(256), r.IntN(256))
	started := began()
	p.Status = corev1.PodStatus{
		ObservedGeneration: 1, Phase: corev1.PodRunning, HostIP: "10.20.4.17", HostIPs: []corev1.HostIP{{IP: "10.20.4.17"}},
		PodIP: ip, PodIPs: []corev1.PodIP{{IP: ip}}, StartTime: &started, QOSClass: corev1.PodQOSBurstable,
	}
	for _, t := range []corev1.PodConditionType{"PodReadyToStartContainers", corev1.PodInitialized, corev1.PodReady, corev1.ContainersReady, corev1.PodScheduled} {
		p.Status.Conditions = append(p.Status.Conditions, corev1.PodCondition{Type: t, ObservedGeneration: 1, Status: corev1.ConditionTrue, LastTransitionTime: started})
	}
	yes := true
	for _, c := range p.Spec.Containers {
		s := corev1.ContainerStatus{
			Name: c.Name, State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: started}}, Ready: true, RestartCount: int32(r.IntN(4)), Image: c.Image,
			ImageID:     fmt.Sprintf("registry.example.com/%s@sha256:%016x%016x%016x%016x", c.Name, r.Uint64(), r.Uint64(), r.Uint64(), r.Uint64()),
			ContainerID: fmt.Sprintf("containerd://%016x%016x%016x%016x", r.Uint64(), r.Uint64(), r.Uint64(), r.Uint64()), Started: &yes,
		}
		for _, m := range c.VolumeMounts {
			s.VolumeMounts = append(s.VolumeMounts, corev1.VolumeMountStatus{Name: m.Name, MountPath: m.MountPath, ReadOnly: m.ReadOnly})
		}
		p.Status.ContainerStatuses = append(p.Status.ContainerStatuses, s)
	}
}

func pick(r *rand.Rand, of ...string) string { return of[r.IntN(len(of))] }

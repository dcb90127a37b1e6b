package deploy_test

import (
	"path"
	"slices"
	"strconv"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/informd/informd/test/applied"
)

// TestPodsAreLockedDown: the restricted level of Pod Security, and what it does not ask for.
func TestPodsAreLockedDown(t *testing.T) {
	eachKustomization(t, func(t *testing.T, d deployment) {
		if len(workloads(d)) == 0 {
			t.Fatal("nothing makes a pod")
		}
		for _, w := range workloads(d) {
			applied.Restricted(t, w.name, &metav1.ObjectMeta{Labels: w.labels}, &w.pod)
			if w.pod.AutomountServiceAccountToken == nil {
				t.Errorf("%s: does not say whether it gets a token", w.name)
			}
			if user := w.pod.SecurityContext.RunAsUser; user == nil || *user == 0 {
				t.Errorf("%s: may run as root", w.name)
			}
			for _, v := range w.pod.Volumes {
				if v.EmptyDir != nil && v.EmptyDir.SizeLimit == nil {
					t.Errorf("%s: volume %s can fill the node's disk", w.name, v.Name)
				}
			}
			for _, c := range containers(w.pod) {
				if s := c.SecurityContext; s.RunAsUser != nil || s.RunAsNonRoot != nil || s.SeccompProfile != nil {
					t.Errorf("%s/%s: overrides what the pod says about users and seccomp", w.name, c.Name)
				}
			}
		}
	})
}

// A container without a memory limit takes its neighbours with it; a Go program
// that does not know its limit is killed instead of collecting garbage.
func TestMemoryIsBounded(t *testing.T) {
	eachKustomization(t, func(t *testing.T, d deployment) {
		for _, w := range workloads(d) {
			for _, c := range containers(w.pod) {
				checkMemory(t, w.name+"/"+c.Name, c)
			}
		}
	})
}

func checkMemory(t *testing.T, name string, c corev1.Container) {
	t.Helper()
	limit := c.Resources.Limits.Memory().Value()
	if limit == 0 || c.Resources.Requests.Memory().IsZero() || c.Resources.Requests.Cpu().IsZero() {
		t.Errorf("%s: wants a memory limit and requests for memory and CPU", name)
	}
	i := slices.IndexFunc(c.Env, func(e corev1.EnvVar) bool { return e.Name == "GOMEMLIMIT" })
	if i >= 0 {
		checkGoMemoryLimit(t, name, c.Env[i].Value, limit)
	} else if runsInformd(c) {
		t.Errorf("%s: GOMEMLIMIT is not set", name)
	}
}

func checkGoMemoryLimit(t *testing.T, name, value string, limit int64) {
	t.Helper()
	mebibytes, ok := strings.CutSuffix(value, "MiB")
	n, err := strconv.ParseInt(mebibytes, 10, 64)
	if !ok || err != nil {
		t.Fatalf("%s: GOMEMLIMIT %q is not a whole number of MiB", name, value)
	}
	if share := float64(n<<20) / float64(limit); share < 0.8 || share > 0.95 {
		t.Errorf("%s: GOMEMLIMIT is %.0f %% of the limit, not 80 to 95", name, share*100)
	}
}

func TestImagesArePinned(t *testing.T) {
	eachKustomization(t, func(t *testing.T, d deployment) {
		for _, w := range workloads(d) {
			for _, c := range containers(w.pod) {
				_, tag, ok := strings.Cut(path.Base(c.Image), ":")
				if !ok || tag == "" || tag == "latest" {
					t.Errorf("%s/%s: image %s has no fixed tag", w.name, c.Name, c.Image)
				}
			}
		}
	})
}

// Every pod is under a policy for both directions; what no rule names is closed.
func TestNetworkIsClosed(t *testing.T) {
	eachKustomization(t, func(t *testing.T, d deployment) {
		for _, w := range workloads(d) {
			var types []networkingv1.PolicyType
			for _, p := range policiesOf(d, w) {
				types = append(types, p.Spec.PolicyTypes...)
			}
			for _, want := range []networkingv1.PolicyType{networkingv1.PolicyTypeIngress, networkingv1.PolicyTypeEgress} {
				if !slices.Contains(types, want) {
					t.Errorf("%s: no network policy for %s", w.name, want)
				}
			}
		}
		for _, p := range find[*networkingv1.NetworkPolicy](d) {
			checkRules(t, p)
		}
	})
}

// checkRules finds rules that open more than they seem to: without ports a rule
// opens all of them, without peers it opens to everybody. Only the way out to the
// API server, which is no pod, has no peer.
func checkRules(t *testing.T, p *networkingv1.NetworkPolicy) {
	t.Helper()
	for _, rule := range p.Spec.Egress {
		if len(rule.Ports) == 0 {
			t.Errorf("network policy %s: an egress rule without ports", p.Name)
		}
		if ports := tcpPorts(rule.Ports); len(rule.To) == 0 && !slices.Equal(ports, []int32{443, 6443}) {
			t.Errorf("network policy %s: an egress rule to everybody on %v", p.Name, ports)
		}
	}
	for _, rule := range p.Spec.Ingress {
		if len(rule.Ports) == 0 || len(rule.From) == 0 {
			t.Errorf("network policy %s: an ingress rule without ports or peers", p.Name)
		}
		for _, peer := range rule.From {
			// Every tenant makes pods, and chooses their labels.
			if all := peer.NamespaceSelector; all != nil && len(all.MatchLabels) == 0 && len(all.MatchExpressions) == 0 {
				t.Errorf("network policy %s: pods of every namespace may connect", p.Name)
			}
		}
	}
}

// policiesOf returns the network policies that hold for a workload's pods.
func policiesOf(d deployment, w workload) []*networkingv1.NetworkPolicy {
	var all []*networkingv1.NetworkPolicy
	for _, p := range find[*networkingv1.NetworkPolicy](d) {
		if selects(p.Spec.PodSelector.MatchLabels, w.labels) {
			all = append(all, p)
		}
	}
	return all
}

// egressPorts are the TCP ports that a workload's pods may connect to.
func egressPorts(d deployment, w workload) []int32 {
	var ports []int32
	for _, p := range policiesOf(d, w) {
		for _, rule := range p.Spec.Egress {
			ports = append(ports, tcpPorts(rule.Ports)...)
		}
	}
	return ports
}

// ingressPorts are the TCP ports on which a workload's pods may be reached.
func ingressPorts(d deployment, w workload) []int32 {
	var ports []int32
	for _, p := range policiesOf(d, w) {
		for _, rule := range p.Spec.Ingress {
			ports = append(ports, tcpPorts(rule.Ports)...)
		}
	}
	return ports
}

func tcpPorts(ports []networkingv1.NetworkPolicyPort) []int32 {
	var all []int32
	for _, p := range ports {
		if p.Protocol != nil && *p.Protocol == corev1.ProtocolTCP && p.Port != nil {
			all = append(all, p.Port.IntVal)
		}
	}
	return all
}

package deploy_test

import (
	"path"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"

	"github.com/informd/informd/test/applied"
)

// TestPodsAreLockedDown: the restricted level of Pod Security, and what it does not ask for.
func TestPodsAreLockedDown(t *testing.T) {
	eachKustomization(t, func(t *testing.T, r release) {
		if len(workloads(r)) == 0 {
			t.Fatal("nothing makes a pod")
		}
		for _, w := range workloads(r) {
			applied.Restricted(t, w.name, &w.template.ObjectMeta, &w.template.Spec)
			if w.template.Spec.AutomountServiceAccountToken == nil {
				t.Errorf("%s: does not say whether it gets a token", w.name)
			}
			if user := w.template.Spec.SecurityContext.RunAsUser; user == nil || *user == 0 {
				t.Errorf("%s: may run as root", w.name)
			}
			for _, v := range w.template.Spec.Volumes {
				if v.EmptyDir != nil && v.EmptyDir.SizeLimit == nil {
					t.Errorf("%s: volume %s can fill the node's disk", w.name, v.Name)
				}
			}
			for _, c := range w.containers() {
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
	eachKustomization(t, func(t *testing.T, r release) {
		for _, w := range workloads(r) {
			for _, c := range w.containers() {
				if c.Resources.Limits.Memory().IsZero() || c.Resources.Requests.Memory().IsZero() || c.Resources.Requests.Cpu().IsZero() {
					t.Errorf("%s/%s: wants a memory limit and requests for memory and CPU", w.name, c.Name)
				}
				if c.Name == "informd" || goMemoryLimit(c) != "" {
					checkMemory(t, c)
				}
			}
		}
	})
}

func TestImagesArePinned(t *testing.T) {
	eachKustomization(t, func(t *testing.T, r release) {
		for _, w := range workloads(r) {
			for _, c := range w.containers() {
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
	eachKustomization(t, func(t *testing.T, r release) {
		for _, w := range workloads(r) {
			var types []networkingv1.PolicyType
			for _, p := range policiesOf(r, w) {
				types = append(types, p.Spec.PolicyTypes...)
			}
			for _, want := range []networkingv1.PolicyType{networkingv1.PolicyTypeIngress, networkingv1.PolicyTypeEgress} {
				if !slices.Contains(types, want) {
					t.Errorf("%s: no network policy for %s", w.name, want)
				}
			}
		}
		for _, p := range of[*networkingv1.NetworkPolicy](r) {
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
func policiesOf(r release, w workload) []*networkingv1.NetworkPolicy {
	var all []*networkingv1.NetworkPolicy
	for _, p := range of[*networkingv1.NetworkPolicy](r) {
		if selects(p.Spec.PodSelector.MatchLabels, w.template.Labels) {
			all = append(all, p)
		}
	}
	return all
}

// egressPorts are the TCP ports that a workload's pods may connect to.
func egressPorts(r release, w workload) []int32 {
	var ports []int32
	for _, p := range policiesOf(r, w) {
		for _, rule := range p.Spec.Egress {
			ports = append(ports, tcpPorts(rule.Ports)...)
		}
	}
	return ports
}

// ingressPorts are the TCP ports on which a workload's pods may be reached.
func ingressPorts(r release, w workload) []int32 {
	var ports []int32
	for _, p := range policiesOf(r, w) {
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

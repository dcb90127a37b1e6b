package deploy_test

import (
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"

	"github.com/informd/informd/pkg/sink/nats"
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

// documentedSecrets are the Secrets that deploy/README.md tells users to make: name,
// then key. Shell variables in the values stay as they are.
func documentedSecrets(t *testing.T) map[string]map[string]string {
	t.Helper()
	command := regexp.MustCompile(`(?m)^kubectl -n informd create secret generic (\S+) (.*)$`)
	literal := regexp.MustCompile(`--from-literal=(\w+)="([^"]*)"`)
	file := regexp.MustCompile(`--from-file=(\S+)`)
	secrets := make(map[string]map[string]string)
	for _, found := range command.FindAllStringSubmatch(string(read(t, "deploy/README.md")), -1) {
		secrets[found[1]] = make(map[string]string)
		for _, pair := range literal.FindAllStringSubmatch(found[2], -1) {
			secrets[found[1]][pair[1]] = pair[2]
		}
		for _, name := range file.FindAllStringSubmatch(found[2], -1) {
			secrets[found[1]][name[1]] = "a file"
		}
	}
	return secrets
}

// A pod that waits for a Secret, or for a key in it, that the README forgets waits
// for ever.
func TestSecretsAreDocumented(t *testing.T) {
	secrets := documentedSecrets(t)
	eachKustomization(t, func(t *testing.T, r release) {
		for _, w := range workloads(r) {
			for _, v := range w.template.Spec.Volumes {
				if v.Secret != nil && len(secrets[v.Secret.SecretName]) == 0 {
					t.Errorf("%s: deploy/README.md makes no Secret %s", w.name, v.Secret.SecretName)
				}
			}
			for _, c := range w.containers() {
				for _, e := range c.Env {
					if e.ValueFrom == nil || e.ValueFrom.SecretKeyRef == nil {
						continue
					}
					ref := e.ValueFrom.SecretKeyRef
					if secrets[ref.Name][ref.Key] == "" {
						t.Errorf("%s/%s: deploy/README.md makes no key %s in a Secret %s", w.name, c.Name, ref.Key, ref.Name)
					}
				}
			}
		}
	})
}

// The server of the NATS overlay refuses clients without a password, has both from
// its environment, and knows the user that informd logs in as.
func TestNATSHasUsers(t *testing.T) {
	r := built(t, root+"/deploy/kustomize/overlays/nats")
	var conf string
	for _, c := range of[*corev1.ConfigMap](r) {
		if strings.HasPrefix(c.Name, "nats-config-") {
			conf = c.Data["nats.conf"]
		}
	}
	var users []string
	var variables []string
	for _, found := range regexp.MustCompile(`\{user: (\w+), password: \$(\w+)`).FindAllStringSubmatch(conf, -1) {
		users, variables = append(users, found[1]), append(variables, found[2])
	}
	if all := strings.Count(conf, "user: "); len(users) != 2 || all != 2 {
		t.Fatalf("%d users, %d of them with a password from a variable, want 2", all, len(users))
	}
	var set []string
	for _, w := range workloads(r) {
		for _, c := range w.containers() {
			for _, e := range c.Env {
				if w.name == "nats" && e.ValueFrom != nil && e.ValueFrom.SecretKeyRef != nil {
					set = append(set, e.Name)
				}
			}
		}
	}
	for _, name := range variables {
		if !slices.Contains(set, name) {
			t.Errorf("nats.conf reads $%s, which the container does not have", name)
		}
	}
	passwords := slices.Sorted(maps.Keys(documentedSecrets(t)["nats-passwords"]))
	if slices.Sort(users); !slices.Equal(users, passwords) {
		t.Errorf("users %q, but passwords of %q", users, passwords)
	}
	for _, s := range parsed(t, r).Sinks {
		options, ok := s.Options.(*nats.Config)
		if !ok || len(options.Servers.Reveal()) != 1 || !strings.HasPrefix(options.Servers.Reveal()[0], "nats://"+users[0]+":$publish@") {
			t.Errorf("informd does not log in as %s: %+v", users[0], options)
		}
	}
}

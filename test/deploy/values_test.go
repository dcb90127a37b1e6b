package deploy_test

import (
	"bytes"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/yaml"

	"github.com/informd/informd/internal/config"
	"github.com/informd/informd/internal/rbac"
	"github.com/informd/informd/test/applied"
)

func TestLint(t *testing.T) {
	for _, file := range valueFiles(t, false) {
		stdout, stderr, err := helm(t, "lint", chart, "--strict", "--kube-version", kubeVersion, "--values", file)
		if err != nil {
			t.Errorf("helm lint --values %s: %v\n%s%s", file, err, stdout, stderr)
		}
	}
}

func TestWrongValues(t *testing.T) {
	for _, file := range valueFiles(t, true) {
		stdout, stderr, err := helm(t, "template", "informd", chart, "--kube-version", kubeVersion, "--values", file)
		if want := comment(t, file, "error"); err == nil || !strings.Contains(stderr, want) {
			t.Errorf("%s: error %v, want %q:\n%s%s", file, err, want, stdout, stderr)
		}
	}
}

func TestGoodValues(t *testing.T) {
	for _, file := range valueFiles(t, false) {
		t.Run(filepath.Base(file), func(t *testing.T) {
			r := renderOwn(t, file)
			c := parsed(t, r)
			_, name, _ := strings.Cut(comment(t, file, "release"), "/")
			checkPlaces(t, r, name)
			checkWarnings(t, c)
			checkPermissions(t, r, c, file)
			s := only[*appsv1.StatefulSet](t, r)
			checkSecurity(t, r)
			checkPorts(t, r, s, c)
			checkVolumes(t, r, c, file)
			checkModes(t, s)
			_, main := informdOf(t, r)
			checkMemory(t, main)
			checkReplicas(t, r, s, c)
		})
	}
}

// The chart adds nothing to a config that makes informd warn. The files of a Pod are not here.
func checkWarnings(t *testing.T, c *config.Config) {
	t.Helper()
	for _, w := range c.Warnings {
		if !strings.Contains(w.Error(), "without TLS") && !strings.Contains(w.Error(), "no such file") {
			t.Errorf("informd warns: %v", w)
		}
	}
}

// checkPermissions compares the roles and their bindings with the output of `informd rbac`,
// and the rules of rbac.rules after it.
func checkPermissions(t *testing.T, r release, c *config.Config, file string) {
	t.Helper()
	var values struct {
		RBAC struct {
			Create *bool
			Rules  []rbacv1.PolicyRule
		}
	}
	must(t, yaml.Unmarshal(read(t, "test/deploy", file), &values))
	account := rbac.Account{Name: only[*appsv1.StatefulSet](t, r).Spec.Template.Spec.ServiceAccountName, Namespace: r.namespace}
	var printed bytes.Buffer
	must(t, rbac.Write(&printed, c, account))
	want := release{namespace: r.namespace}
	if create := values.RBAC.Create; create == nil || *create {
		for document := range strings.SplitSeq(printed.String(), "\n---\n") {
			want.add(t, []byte(document))
		}
	}
	for _, role := range of[*rbacv1.ClusterRole](want) {
		role.Rules = append(role.Rules, values.RBAC.Rules...)
	}
	unlabelled := cmpopts.IgnoreFields(metav1.ObjectMeta{}, "Labels")
	for kind, diff := range map[string]string{
		"ClusterRoles":        cmp.Diff(of[*rbacv1.ClusterRole](want), of[*rbacv1.ClusterRole](r), unlabelled),
		"ClusterRoleBindings": cmp.Diff(of[*rbacv1.ClusterRoleBinding](want), of[*rbacv1.ClusterRoleBinding](r), unlabelled),
		"Roles":               cmp.Diff(of[*rbacv1.Role](want), of[*rbacv1.Role](r), unlabelled),
		"RoleBindings":        cmp.Diff(of[*rbacv1.RoleBinding](want), of[*rbacv1.RoleBinding](r), unlabelled),
	} {
		if diff != "" {
			t.Errorf("%s (-informd rbac +chart):\n%s", kind, diff)
		}
	}
	for id := range of[*corev1.ServiceAccount](r) {
		if id != account.Namespace+"/"+account.Name {
			t.Errorf("service account %s, and the Pod uses %s", id, account.Name)
		}
	}
}

// checkSecurity holds the Pods to the restricted level of Pod Security, and to a read-only root.
func checkSecurity(t *testing.T, r release) {
	t.Helper()
	w, c := informdOf(t, r)
	applied.Restricted(t, w.name, &w.template.ObjectMeta, &w.template.Spec)
	if !strings.Contains(c.Image, "@sha256:") && strings.HasSuffix(c.Image, ":latest") {
		t.Errorf("image %s", c.Image)
	}
}

// checkPorts holds together admin.listen, the port of the container, the probes, the
// Service and the NetworkPolicy.
func checkPorts(t *testing.T, r release, s *appsv1.StatefulSet, c *config.Config) {
	t.Helper()
	_, main := informdOf(t, r)
	port := main.Ports[0].ContainerPort
	if want := ":" + strconv.Itoa(int(port)); c.Admin.Listen != want || main.Ports[0].Name != "http" {
		t.Errorf("port %v of the container, admin.listen is %s", main.Ports[0], c.Admin.Listen)
	}
	scheme := corev1.URISchemeHTTP
	if c.Admin.TLS.CertFile != "" {
		scheme = corev1.URISchemeHTTPS
	}
	for path, probe := range map[string]*corev1.Probe{"/healthz": main.LivenessProbe, "/readyz": main.ReadinessProbe} {
		if get := probe.HTTPGet; get.Path != path || get.Port.StrVal != "http" || get.Scheme != scheme {
			t.Errorf("probe of %s: %v", path, get)
		}
	}
	labels := s.Spec.Template.Labels
	service := only[*corev1.Service](t, r)
	if !selects(service.Spec.Selector, labels) || service.Name != s.Spec.ServiceName || service.Spec.Ports[0].Port != port {
		t.Errorf("service %s: %v", service.Name, service.Spec)
	}
	if !selects(s.Spec.Selector.MatchLabels, labels) {
		t.Errorf("the selector %v does not match the Pods", s.Spec.Selector)
	}
	for _, p := range of[*networkingv1.NetworkPolicy](r) {
		if !selects(p.Spec.PodSelector.MatchLabels, labels) || len(p.Spec.PolicyTypes) != 2 {
			t.Errorf("network policy: %v", p.Spec)
		}
		for _, rule := range p.Spec.Ingress {
			if len(rule.From) == 0 || len(rule.Ports) != 1 || rule.Ports[0].Port.IntVal != port {
				t.Errorf("network policy: ingress %v", rule)
			}
		}
	}
	for _, m := range r.kind("ServiceMonitor") {
		var spec struct {
			Selector  metav1.LabelSelector
			Endpoints []struct{ Port, Scheme, Path string }
		}
		decode(t, m.Object["spec"], &spec)
		endpoint := spec.Endpoints[0]
		if !selects(spec.Selector.MatchLabels, service.Labels) || endpoint.Port != service.Spec.Ports[0].Name ||
			!strings.EqualFold(endpoint.Scheme, string(scheme)) || endpoint.Path != "/metrics" {
			t.Errorf("service monitor: %+v", spec)
		}
	}
}

// checkMounts: each mount has a volume, and each volume a mount.
func checkMounts(t *testing.T, w workload) {
	t.Helper()
	mounted := map[string]bool{}
	for _, v := range w.template.Spec.Volumes {
		mounted[v.Name] = false
	}
	for _, claim := range w.claims {
		mounted[claim.Name] = false
	}
	for _, c := range w.containers() {
		for _, m := range c.VolumeMounts {
			if _, ok := mounted[m.Name]; !ok {
				t.Errorf("%s: mount of %s, which is no volume", w.name, m.Name)
			}
			mounted[m.Name] = true
		}
	}
	for name, ok := range mounted {
		if !ok {
			t.Errorf("%s: volume %s is mounted nowhere", w.name, name)
		}
	}
}

// checkVolumes: journal.dir is writable. Only a log has a claim, and with several replicas only if the values say so.
func checkVolumes(t *testing.T, r release, c *config.Config, file string) {
	t.Helper()
	w, main := informdOf(t, r)
	checkMounts(t, w)
	if m := mountOf(main, c.Journal.Dir+"/x"); m.Name == "" || m.ReadOnly {
		t.Errorf("journal.dir %s is on no writable volume", c.Journal.Dir)
	}
	var values struct{ Persistence struct{ Enabled bool } }
	must(t, yaml.Unmarshal(read(t, "test/deploy", file), &values))
	replicas := *only[*appsv1.StatefulSet](t, r).Spec.Replicas
	if want := c.Journal.Type == config.JournalLog && (replicas == 1 || values.Persistence.Enabled); want != (len(w.claims) == 1) {
		t.Errorf("journal type %s, %d replicas, %d claims", c.Journal.Type, replicas, len(w.claims))
	}
	for _, claim := range w.claims {
		if size := claim.Spec.Resources.Requests.Storage().Value(); size <= int64(c.Journal.MaxBytes) {
			t.Errorf("a volume of %d bytes, journal.maxBytes is %d", size, c.Journal.MaxBytes)
		}
	}
}

// checkMemory: GOMEMLIMIT is 90 % of the limit, in whole MiB.
func checkMemory(t *testing.T, c corev1.Container) {
	t.Helper()
	want := ""
	if limit := c.Resources.Limits.Memory().Value(); limit > 0 {
		want = fmt.Sprintf("%dMiB", limit*9/10>>20)
	}
	if got := goMemoryLimit(c); got != want {
		t.Errorf("%s: GOMEMLIMIT is %q, want %q", c.Name, got, want)
	}
}

func goMemoryLimit(c corev1.Container) string {
	for _, e := range c.Env {
		if e.Name == "GOMEMLIMIT" {
			return e.Value
		}
	}
	return ""
}

// checkReplicas: several replicas are spread, have a budget and a Lease, reach each other, and the
// address of each one is in its environment.
func checkReplicas(t *testing.T, r release, s *appsv1.StatefulSet, c *config.Config) {
	t.Helper()
	several := *s.Spec.Replicas > 1
	budgets := of[*policyv1.PodDisruptionBudget](r)
	if several != (len(budgets) == 1) || several != (c.Replicas.Lease != "") {
		t.Errorf("%d replicas, %d budgets, lease %q", *s.Spec.Replicas, len(budgets), c.Replicas.Lease)
	}
	if own := ownRules(r, s); several != (own == 2) {
		t.Errorf("%d replicas, and %d rules of the network policy are for the other ones", *s.Spec.Replicas, own)
	}
	if want := fmt.Sprintf("%s-0.%s.%s.svc%s", s.Name, s.Spec.ServiceName, s.Namespace, c.Admin.Listen); several && c.Replicas.Address != want {
		t.Errorf("the first Pod has the address %q, want %q", c.Replicas.Address, want)
	}
	for _, b := range budgets {
		if !selects(b.Spec.Selector.MatchLabels, s.Spec.Template.Labels) || b.Spec.MaxUnavailable.IntVal != 1 {
			t.Errorf("budget: %v", b.Spec)
		}
	}
	constraints := s.Spec.Template.Spec.TopologySpreadConstraints
	if several != (len(constraints) > 0) {
		t.Errorf("%d replicas, %d spread constraints", *s.Spec.Replicas, len(constraints))
	}
	for _, one := range constraints {
		if !selects(one.LabelSelector.MatchLabels, s.Spec.Template.Labels) {
			t.Errorf("spread constraint: %v", one)
		}
	}
}

// ownRules counts the rules of network policies that are for the other Pods of the StatefulSet.
func ownRules(r release, s *appsv1.StatefulSet) (n int) {
	for _, p := range of[*networkingv1.NetworkPolicy](r) {
		for _, rule := range p.Spec.Ingress {
			n += toSelf(rule.From, rule.Ports, s)
		}
		for _, rule := range p.Spec.Egress {
			n += toSelf(rule.To, rule.Ports, s)
		}
	}
	return n
}

// toSelf is 1 if a rule is for the Pods of the StatefulSet, on their port.
func toSelf(peers []networkingv1.NetworkPolicyPeer, ports []networkingv1.NetworkPolicyPort, s *appsv1.StatefulSet) int {
	if len(peers) != 1 || peers[0].PodSelector == nil || peers[0].NamespaceSelector != nil || !selects(peers[0].PodSelector.MatchLabels, s.Spec.Template.Labels) ||
		len(ports) != 1 || ports[0].Port.IntVal != s.Spec.Template.Spec.Containers[0].Ports[0].ContainerPort {
		return 0
	}
	return 1
}

package deploy_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/util/yaml"

	"github.com/informd/informd/internal/config"
	"github.com/informd/informd/internal/configfile"
	"github.com/informd/informd/pkg/sink/drivers"
)

// must ends a test that an error leaves nothing to check in.
func must(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
}

const defaults = "testdata/defaults.yaml"

// decode is a conversion over JSON.
func decode(t *testing.T, from, into any) {
	t.Helper()
	text, err := json.Marshal(from)
	must(t, err)
	must(t, json.Unmarshal(text, into))
}

// A change that a running informd takes from the file keeps the Pods; any other change of the
// config replaces them.
func TestUpgradeRestartsOnlyIfNeeded(t *testing.T) {
	before := renderOwn(t, defaults)
	for _, set := range []string{
		"config.resources[0]=secrets", "config.sinks[0].name=other,config.sinks[0].type=stdout", "config.log.level=debug", "config.kubernetes.maxWatches=7",
		"config.log.format=text", "config.kubernetes.auditEvery=2h", "config.journal.sync=always", "config.cluster=other", "config.admin.hosts[0]=example.com",
	} {
		after := renderOwn(t, defaults, "--set", set)
		refused := parsed(t, before).Replaces(parsed(t, after)) != nil
		same := cmp.Equal(only[*appsv1.StatefulSet](t, before).Spec.Template, only[*appsv1.StatefulSet](t, after).Spec.Template)
		if string(configText(t, before)) == string(configText(t, after)) || same == refused {
			t.Errorf("%s: a running informd refuses it: %t, the Pods stay: %t", set, refused, same)
		}
	}
}

// A new version of the chart replaces the Pods only if it changes them.
func TestPodLabelsAreStable(t *testing.T) {
	s := only[*appsv1.StatefulSet](t, renderOwn(t, defaults))
	if diff := cmp.Diff(s.Spec.Selector.MatchLabels, s.Spec.Template.Labels); diff != "" {
		t.Errorf("labels of the Pods (-selector +labels):\n%s", diff)
	}
	for _, claim := range s.Spec.VolumeClaimTemplates {
		if len(claim.Labels) > 0 {
			t.Errorf("the claim has labels, which cannot change: %v", claim.Labels)
		}
	}
}

// The defaults are those of the kustomize base.
func TestDefaultsAreThoseOfKustomize(t *testing.T) {
	r := renderOwn(t, defaults)
	base, err := configfile.Parse("config.yaml", read(t, "deploy/kustomize/base/config.yaml"), drivers.All())
	must(t, err)
	own := parsed(t, r)
	for name, diff := range map[string]string{
		"resources": cmp.Diff(entries(base), entries(own)),
		"admin":     cmp.Diff(base.Admin, own.Admin),
		"log":       cmp.Diff(base.Log, own.Log),
		"sinks":     cmp.Diff(base.Sinks[0].Type+" "+base.Sinks[0].Name, own.Sinks[0].Type+" "+own.Sinks[0].Name),
		"journal":   cmp.Diff(base.Journal.Type+" "+base.Journal.Dir, own.Journal.Type+" "+own.Journal.Dir),
	} {
		if diff != "" {
			t.Errorf("%s (-kustomize +chart):\n%s", name, diff)
		}
	}
	var pod appsv1.StatefulSet
	must(t, yaml.Unmarshal(read(t, "deploy/kustomize/base/statefulset.yaml"), &pod))
	theirs, ours := pod.Spec.Template.Spec, only[*appsv1.StatefulSet](t, r).Spec.Template.Spec
	if diff := cmp.Diff(theirs.SecurityContext, ours.SecurityContext); diff != "" {
		t.Errorf("security context (-kustomize +chart):\n%s", diff)
	}
	from, to := theirs.Containers[0], ours.Containers[0]
	if diff := cmp.Diff([]any{from.Args, from.Resources, from.SecurityContext}, []any{to.Args, to.Resources, to.SecurityContext}); diff != "" {
		t.Errorf("container (-kustomize +chart):\n%s", diff)
	}
	kustomization := string(read(t, "deploy/kustomize/base/kustomization.yaml"))
	_, tag, _ := strings.Cut(to.Image, ":")
	if !strings.Contains(kustomization, "newTag: "+tag+"\n") {
		t.Errorf("the image is %s, which the kustomize base has not", to.Image)
	}
}

// With two replicas, the chart makes what the overlay ha of kustomize makes.
func TestHighAvailabilityIsThatOfKustomize(t *testing.T) {
	ours := renderOwn(t, "testdata/ha.yaml")
	theirs := built(t, root+"/deploy/kustomize/overlays/ha")
	if diff := cmp.Diff(pairOf(t, theirs), pairOf(t, ours)); diff != "" {
		t.Errorf("(-kustomize +chart):\n%s", diff)
	}
}

// pair is what makes two informds a pair, without names and labels.
type pair struct {
	Replicas    *int32
	Management  appsv1.PodManagementPolicyType
	Spread      []corev1.TopologySpreadConstraint
	Volumes     []string
	Mounts      []corev1.VolumeMount
	Claims      int
	Unavailable string
	Env         []corev1.EnvVar
	Probes      []corev1.URIScheme
	Config      []any
	OwnRules    int
}

func pairOf(t *testing.T, r release) pair {
	t.Helper()
	set, budget, c := only[*appsv1.StatefulSet](t, r), only[*policyv1.PodDisruptionBudget](t, r), parsed(t, r)
	_, main := informdOf(t, r)
	p := pair{
		Replicas: set.Spec.Replicas, Management: set.Spec.PodManagementPolicy, Spread: set.Spec.Template.Spec.TopologySpreadConstraints,
		Mounts: main.VolumeMounts, Claims: len(set.Spec.VolumeClaimTemplates), Unavailable: budget.Spec.MaxUnavailable.String(),
		Env:      slices.DeleteFunc(main.Env, func(e corev1.EnvVar) bool { return e.Name == "GOMEMLIMIT" }),
		Probes:   []corev1.URIScheme{main.LivenessProbe.HTTPGet.Scheme, main.ReadinessProbe.HTTPGet.Scheme},
		Config:   []any{c.Journal.Type, c.Journal.Dir, c.Redaction.KeyFile, c.Admin, c.Replicas},
		OwnRules: ownRules(r, set),
	}
	for i := range p.Spread {
		if !selects(p.Spread[i].LabelSelector.MatchLabels, set.Spec.Template.Labels) {
			t.Errorf("the spread selects %v, the Pods have %v", p.Spread[i].LabelSelector.MatchLabels, set.Spec.Template.Labels)
		}
		p.Spread[i].LabelSelector = nil
		// Without it, one node may have both Pods while no other one is there.
		if p.Spread[i].TopologyKey == corev1.LabelHostname && (p.Spread[i].MinDomains == nil || *p.Spread[i].MinDomains != *set.Spec.Replicas) {
			t.Errorf("the spread over nodes has minDomains %v", p.Spread[i].MinDomains)
		}
	}
	for _, v := range set.Spec.Template.Spec.Volumes {
		v.ConfigMap = nil // its name differs
		if v.EmptyDir != nil {
			v.EmptyDir.SizeLimit = nil // it follows journal.maxBytes
		}
		p.Volumes = append(p.Volumes, v.String())
	}
	slices.Sort(p.Volumes)
	slices.SortFunc(p.Mounts, func(a, b corev1.VolumeMount) int { return strings.Compare(a.Name, b.Name) })
	if !selects(budget.Spec.Selector.MatchLabels, set.Spec.Template.Labels) {
		t.Errorf("the budget selects %v, the Pods have %v", budget.Spec.Selector.MatchLabels, set.Spec.Template.Labels)
	}
	return p
}

func entries(c *config.Config) (all []string) {
	for _, r := range c.Resources {
		all = append(all, r.Resource+"."+r.Group+" "+r.Mode)
	}
	slices.Sort(all)
	return all
}

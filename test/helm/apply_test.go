package helm_test

import (
	"path/filepath"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"

	"github.com/informd/informd/test/applied"
)

// TestApply applies each good value file by server-side apply: a dry run, for real, and
// again without a change. The namespaces enforce the restricted level of Pod Security, and the
// API server accepts the Pods of the StatefulSet there.
func TestApply(t *testing.T) {
	s := applied.Start(t)
	for _, resource := range []string{"ServiceMonitor", "PrometheusRule"} {
		s.Define(t, resource)
	}
	for _, file := range valueFiles(t, false) {
		namespace := strings.TrimSuffix(filepath.Base(file), ".yaml")
		t.Run(namespace, func(t *testing.T) {
			r := render(t, file, namespace, "informd")
			s.Apply(t, r.objects)
			set := only[*appsv1.StatefulSet](t, r)
			s.CreatePod(t, set.Namespace, set.Name, &set.Spec.Template, set.Spec.VolumeClaimTemplates)
		})
	}
	for _, text := range s.Warned() {
		t.Errorf("the API server warns: %s", text)
	}
}

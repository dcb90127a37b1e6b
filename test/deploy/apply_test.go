package deploy_test

import (
	"path/filepath"
	"testing"

	appsv1 "k8s.io/api/apps/v1"

	"github.com/informd/informd/test/applied"
)

// TestApply applies each kustomization to a real API server.
func TestApply(t *testing.T) {
	s := applied.Start(t)
	for _, dir := range kustomizations() {
		t.Run(filepath.Base(dir), func(t *testing.T) {
			d := build(t, dir)
			s.Apply(t, d.objects)
			for _, set := range find[*appsv1.StatefulSet](d) {
				s.CreatePod(t, d.namespace, set.Name, &set.Spec.Template, set.Spec.VolumeClaimTemplates)
			}
			for _, set := range find[*appsv1.Deployment](d) {
				s.CreatePod(t, d.namespace, set.Name, &set.Spec.Template, nil)
			}
			s.Delete(t, d.objects) // the next one may have others with these names
		})
	}
	for _, text := range s.Warned() {
		t.Errorf("the API server warns: %s", text)
	}
}

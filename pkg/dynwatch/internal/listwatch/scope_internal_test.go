package listwatch

import (
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// TestLoses: a selection loses no object if what it selects by cannot change.
func TestLoses(t *testing.T) {
	pods, things := schema.GroupVersionResource{Version: "v1", Resource: "pods"}, schema.GroupVersionResource{Group: "g", Resource: "pods"}
	for _, c := range []struct {
		of            schema.GroupVersionResource
		fields, label string
		loses         bool
		name          string
	}{
		{of: pods},
		{of: pods, fields: "metadata.name=a", name: "a"},
		{of: things, fields: "metadata.namespace!=x,metadata.name==a", name: "a"},
		{of: things, fields: "metadata.name!=a"},
		{of: pods, fields: "metadata.name="},
		{of: pods, fields: "metadata.name=a", label: "on=yes", loses: true, name: "a"},
		{of: pods, fields: "spec.nodeName=n1"},
		{of: pods, fields: "spec.nodeName!="},
		{of: pods, fields: "spec.nodeName=", loses: true},
		{of: pods, fields: "spec.nodeName!=n1", loses: true},
		{of: pods, fields: "spec.nodeName=n1,status.phase=Running", loses: true},
		{of: things, fields: "spec.nodeName=n1", loses: true},
		{of: pods, label: "on=yes", loses: true},
	} {
		r := Resource{GVR: c.of, FieldSelector: c.fields, LabelSelector: c.label}
		if got := r.Loses(); got != c.loses {
			t.Errorf("%s %q %q: loses %v", c.of, c.fields, c.label, got)
		}
		if name, ok := SelectedName(c.fields); name != c.name || ok != (c.name != "") {
			t.Errorf("%q: name %q, %v", c.fields, name, ok)
		}
	}
}

package spec_test

import (
	"testing"

	"github.com/informd/informd/pkg/dynwatch/internal/spec"
)

// TestShown: values of core Secrets do not show, unless objects are wanted as they are.
func TestShown(t *testing.T) {
	for _, c := range []struct {
		spec   spec.Spec
		secret bool
	}{
		{spec.Spec{Resource: "secrets"}, true},
		{spec.Spec{Resource: "secrets", Exact: true}, false},
		{spec.Spec{Resource: "configmaps"}, false},
		{spec.Spec{Group: "example.com", Resource: "secrets"}, false},
	} {
		if got := c.spec.Shown().Secret; got != c.secret {
			t.Errorf("%+v: secret is %t", c.spec, got)
		}
	}
}

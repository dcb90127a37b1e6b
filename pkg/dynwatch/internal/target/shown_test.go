package target_test

import (
	"testing"

	"github.com/informd/informd/pkg/dynwatch/internal/target"
)

// TestShown: values of core Secrets do not show, unless objects are wanted as they are.
func TestShown(t *testing.T) {
	for _, c := range []struct {
		spec   target.Spec
		secret bool
	}{
		{target.Spec{Resource: "secrets"}, true},
		{target.Spec{Resource: "secrets", Exact: true}, false},
		{target.Spec{Resource: "configmaps"}, false},
		{target.Spec{Group: "example.com", Resource: "secrets"}, false},
	} {
		if got := c.spec.Shown().Secret; got != c.secret {
			t.Errorf("%+v: secret is %t", c.spec, got)
		}
	}
}

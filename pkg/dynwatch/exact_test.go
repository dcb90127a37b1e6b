package dynwatch_test

import (
	"strings"
	"testing"

	"github.com/informd/informd/pkg/dynwatch"
)

// TestExactIsAlone: rules that change an object contradict Exact.
func TestExactIsAlone(t *testing.T) {
	for name, r := range map[string]dynwatch.Resource{
		"keep":      {Keep: []string{"spec"}},
		"omit":      {Omit: []string{"spec"}},
		"redact":    {Redact: []string{"spec"}},
		"changed":   {EmitWhen: dynwatch.EmitWhen{Changed: []string{"spec"}}},
		"noop":      {EmitWhen: dynwatch.EmitWhen{SuppressNoop: true}},
		"unchanged": {SinkFilters: []string{"spec"}},
	} {
		r.Resource, r.Exact = "pods", true
		if _, err := dynwatch.Covering([]dynwatch.Resource{r}); err == nil || !strings.Contains(err.Error(), "exact") {
			t.Errorf("%s: error %v, want one about exact", name, err)
		}
	}
	if _, err := dynwatch.Covering([]dynwatch.Resource{{Resource: "pods", Exact: true}}); err != nil {
		t.Error(err)
	}
}

package fieldpath_test

import (
	"testing"

	"github.com/informd/informd/pkg/fieldpath"
)

func TestRedactsAround(t *testing.T) {
	for item, want := range map[string]bool{
		"metadata.ownerReferences":         true,
		"metadata.ownerReferences[].name":  true,
		`metadata["ownerReferences"].*`:    true,
		"metadata.*.name":                  true,
		"*.ownerReferences":                true,
		"metadata.labels":                  false,
		"metadata.labels.ownerReferences":  false,
		"spec.ownerReferences":             false,
		"metadata[].ownerReferences[].uid": false,
		"/[a-z]+/":                         false,
	} {
		r, err := fieldpath.ParseRules(nil, nil, []string{item}, false)
		if err != nil {
			t.Fatal(err)
		}
		if got := r.RedactsAround("metadata", "ownerReferences"); got != want {
			t.Errorf("%s: %t", item, got)
		}
	}
	if (*fieldpath.Rules)(nil).RedactsAround("metadata") {
		t.Error("no rules redact something")
	}
}

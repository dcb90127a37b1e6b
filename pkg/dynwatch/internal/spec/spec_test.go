package spec_test

import (
	"testing"

	"github.com/informd/informd/pkg/dynwatch/internal/emit"
	"github.com/informd/informd/pkg/dynwatch/internal/selection"
	"github.com/informd/informd/pkg/dynwatch/internal/spec"
	"github.com/informd/informd/pkg/event"
)

func TestName(t *testing.T) {
	for want, s := range map[string]spec.Spec{
		"core/pods":        {Version: "v1", Resource: "pods"},
		"core/pods@shop":   {Resource: "pods", Namespace: "shop"},
		"apps/deployments": {Group: "apps", Version: "v1", Resource: "deployments"},
	} {
		if got := s.Name(); got != want {
			t.Errorf("name %q, want %q", got, want)
		}
	}
}

// TestWatches: members of events need no other watch; other objects do.
func TestWatches(t *testing.T) {
	base := spec.Spec{Version: "v1", Resource: "pods", LabelSelector: "app=a"}
	same := map[string]func(*spec.Spec){
		"changes": func(s *spec.Spec) { s.Changes = emit.Changes{Patch: true} },
		"actor":   func(s *spec.Spec) { s.Actor = true },
		"owner":   func(s *spec.Spec) { s.Owner = true },
	}
	other := map[string]func(*spec.Spec){
		"version":       func(s *spec.Spec) { s.Version = "v2" },
		"namespace":     func(s *spec.Spec) { s.Namespace = "shop" },
		"labels":        func(s *spec.Spec) { s.LabelSelector = "" },
		"fields":        func(s *spec.Spec) { s.FieldSelector = "spec.nodeName=a" },
		"metadata only": func(s *spec.Spec) { s.MetadataOnly = true },
		"excluded":      func(s *spec.Spec) { s.Namespaces = selection.NewRule(nil, []string{"kube-*"}, "") },
		"earlier":       func(s *spec.Spec) { s.Earlier = "apps" },
	}
	for want, edits := range map[bool]map[string]func(*spec.Spec){true: same, false: other} {
		for name, edit := range edits {
			s := base
			if edit(&s); base.Watches(s) != want {
				t.Errorf("%s: the same watch is %v, want %v", name, !want, want)
			}
		}
	}
}

// TestSelection: the checkpoint holds this text, so each selection must have a different one,
// and a spec without selectors none.
func TestSelection(t *testing.T) {
	seen := map[string]string{"": "none"}
	for name, s := range map[string]spec.Spec{
		"labels":    {LabelSelector: "a=b"},
		"fields":    {FieldSelector: "a=b"},
		"names":     {Namespaces: selection.NewRule([]string{"a*"}, nil, "")},
		"excluded":  {Namespaces: selection.NewRule(nil, []string{"a*"}, "")},
		"selector":  {Namespaces: selection.NewRule(nil, nil, "a=b")},
		"two rules": {LabelSelector: "a=b", Namespaces: selection.NewRule(nil, nil, "a=b")},
	} {
		text := s.Selection()
		if other, ok := seen[text]; ok {
			t.Errorf("%s and %s have the same selection %q", name, other, text)
		}
		seen[text] = name
	}
	if text := (spec.Spec{Resource: "pods", Namespace: "shop"}).Selection(); text != "" {
		t.Errorf("a spec without selectors has the selection %q", text)
	}
}

func TestCovers(t *testing.T) {
	object := func(namespace string) *event.Event { return &event.Event{Op: event.Added, Namespace: namespace} }
	control := func(target string) *event.Event { return &event.Event{Op: event.Synced, Target: target} }
	one := spec.Spec{Resource: "pods", Namespace: "shop"}
	all := spec.Spec{Resource: "pods", Namespaces: selection.NewRule(nil, []string{"kube-*"}, "")}
	for name, test := range map[string]struct {
		of   spec.Spec
		e    *event.Event
		want bool
	}{
		"its namespace":      {one, object("shop"), true},
		"another namespace":  {one, object("bank"), false},
		"its control event":  {one, control("core/pods@shop"), true},
		"another target":     {one, control("core/pods"), false},
		"a namespace of all": {all, object("shop"), true},
		"excluded namespace": {all, object("kube-system"), false},
	} {
		if got := test.of.Covers(test.e); got != test.want {
			t.Errorf("%s: covered is %v", name, got)
		}
	}
}

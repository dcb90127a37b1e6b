package target_test

import (
	"testing"

	"github.com/informd/informd/pkg/dynwatch/internal/emit"
	"github.com/informd/informd/pkg/dynwatch/internal/selection"
	"github.com/informd/informd/pkg/dynwatch/internal/target"
	"github.com/informd/informd/pkg/event"
)

func TestName(t *testing.T) {
	for want, s := range map[string]target.Spec{
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
	base := target.Spec{Version: "v1", Resource: "pods", LabelSelector: "app=a"}
	same := map[string]func(*target.Spec){
		"changes": func(s *target.Spec) { s.Changes = emit.Changes{Patch: true} },
		"actor":   func(s *target.Spec) { s.Actor = true },
		"owner":   func(s *target.Spec) { s.Owner = true },
	}
	other := map[string]func(*target.Spec){
		"version":       func(s *target.Spec) { s.Version = "v2" },
		"namespace":     func(s *target.Spec) { s.Namespace = "shop" },
		"labels":        func(s *target.Spec) { s.LabelSelector = "" },
		"fields":        func(s *target.Spec) { s.FieldSelector = "spec.nodeName=a" },
		"metadata only": func(s *target.Spec) { s.MetadataOnly = true },
		"excluded":      func(s *target.Spec) { s.Namespaces = selection.NewRule(nil, []string{"kube-*"}, "") },
		"earlier":       func(s *target.Spec) { s.Earlier = "apps" },
	}
	for want, edits := range map[bool]map[string]func(*target.Spec){true: same, false: other} {
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
	for name, s := range map[string]target.Spec{
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
	if text := (target.Spec{Resource: "pods", Namespace: "shop"}).Selection(); text != "" {
		t.Errorf("a spec without selectors has the selection %q", text)
	}
}

func TestCovers(t *testing.T) {
	object := func(namespace string) *event.Event { return &event.Event{Op: event.Added, Namespace: namespace} }
	control := func(target string) *event.Event { return &event.Event{Op: event.Synced, Target: target} }
	one := target.Spec{Resource: "pods", Namespace: "shop"}
	all := target.Spec{Resource: "pods", Namespaces: selection.NewRule(nil, []string{"kube-*"}, "")}
	for name, test := range map[string]struct {
		of   target.Spec
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

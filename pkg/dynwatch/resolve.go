package dynwatch

import (
	"context"
	"errors"
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/informd/informd/internal/spelling"
	"github.com/informd/informd/pkg/dynwatch/internal/frame"
	"github.com/informd/informd/pkg/dynwatch/internal/kube"
	"github.com/informd/informd/pkg/dynwatch/internal/listwatch"
	"github.com/informd/informd/pkg/dynwatch/internal/selection"
)

// resolved is what discovery says about a resource.
type resolved struct {
	gvr        schema.GroupVersionResource
	kind       string
	namespaced bool
}

// unknownResource is an errNotServed about a group that is served.
type unknownResource struct {
	resource, where string
	others          []string // the resources that are served there
}

// Error names the resource, where it is missing, and the one that was probably meant.
func (e *unknownResource) Error() string {
	text := fmt.Sprintf("%v: the API server has no resource %q in %s", kube.ErrNotServed, e.resource, e.where)
	if near, ok := spelling.Nearest(e.resource, e.others); ok {
		text += fmt.Sprintf(" (did you mean %q?)", near)
	}
	return text
}

// Unwrap returns errNotServed.
func (*unknownResource) Unwrap() error { return kube.ErrNotServed }

// errUnusable: the resource is served but cannot be watched as wanted.
var errUnusable = errors.New("cannot be watched")

// resolve looks the spec's resource up. errNotServed means that it is not there
// now (if it is an [unconfirmed], only a 404 says so), errUnusable that it is there and
// unfit, errUntold (with what it is) that it may be unfit; any other error says nothing
// about the resource.
func resolve(ctx context.Context, d *kube.Discovery, s spec) (r resolved, err error) {
	g := kube.NewGuard(ctx)
	defer g.Close()
	defer func() { err = g.Explain(err) }()
	ctx = g.Context
	versions := []string{s.version}
	if s.version == "" {
		if versions, err = kube.ServedVersions(ctx, d, s.group); err != nil {
			return resolved{}, err
		}
	}
	var unread error // the last version that answered 404
	unknown := &unknownResource{resource: s.resource, where: describeVersions(s)}
	for _, version := range versions {
		gv := schema.GroupVersion{Group: s.group, Version: version}
		resources, err := kube.ResourcesOf(ctx, d, gv)
		if kube.IsUnconfirmed(err) {
			unread = err
			continue
		}
		if err != nil {
			return resolved{}, err
		}
		i := slices.IndexFunc(resources, func(r metav1.APIResource) bool { return r.Name == s.resource })
		if i < 0 {
			unknown.others = append(unknown.others, listable(resources)...)
			continue
		}
		if err := fit(s, &resources[i]); err != nil {
			return resolved{}, err
		}
		r = resolved{gvr: gv.WithResource(s.resource), kind: resources[i].Kind, namespaced: resources[i].Namespaced}
		return r, checkTwins(ctx, d, s, &resources[i])
	}
	if unread != nil {
		return resolved{}, s.absent(ctx, d, unread, unknown)
	}
	return resolved{}, unknown
}

// listable names the resources that can be listed.
func listable(all []metav1.APIResource) []string {
	var names []string
	for i := range all {
		if slices.Contains(all[i].Verbs, "list") {
			names = append(names, all[i].Name)
		}
	}
	return names
}

func describeVersions(s spec) string {
	switch {
	case s.version != "":
		return schema.GroupVersion{Group: s.group, Version: s.version}.String()
	case s.group == "":
		return "the core group"
	default:
		return s.group
	}
}

// fit checks that a served resource can be watched as the spec wants it.
func fit(s spec, r *metav1.APIResource) error {
	for _, verb := range []string{"list", "watch"} {
		if !slices.Contains(r.Verbs, verb) {
			return fmt.Errorf("%w: the API server does not offer %s for the resource", errUnusable, verb)
		}
	}
	if (s.namespace != "" || s.namespaces != (selection.Rule{})) && !r.Namespaced {
		return fmt.Errorf("%w: the resource is cluster-scoped; remove %s from its entry", errUnusable, s.namespaceKeys())
	}
	return nil
}

// absent says what a 404 for the only version that is wanted means.
func (s spec) absent(ctx context.Context, d *kube.Discovery, unread, unknown error) error {
	if s.version == "" {
		return unread
	}
	versions, err := kube.ServedVersions(ctx, d, s.group)
	switch {
	case err != nil:
		return err
	case slices.Contains(versions, s.version):
		return unread
	default:
		return unknown // the document of the group does not have the version
	}
}

// source makes the source of a resource as a target wants it. Its objects come in the
// shape that shape returns at the time; a nil filter lets all through.
func (s spec) source(r resolved, c *kube.Clients, redactor *frame.Redactor, shape func() *frame.Shape, f *selection.Filter) (*listwatch.Source, error) {
	if s.group != "" || s.resource != "secrets" {
		redactor = nil // there is nothing to hide but what the shape does
	}
	o := listwatch.Options{Clients: c, Redactor: redactor, Shape: shape, Covers: f.Covers}
	if f != nil {
		o.Wants = f.Wants
	}
	return listwatch.New(listwatch.Resource{
		GVR: r.gvr, Kind: r.kind, Namespaced: r.namespaced, Name: s.name(), Namespace: s.namespace,
		MetadataOnly: s.mode == Metadata, LabelSelector: s.labelSelector, FieldSelector: s.fieldSelector,
	}, o)
}

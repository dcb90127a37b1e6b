package catalog

import (
	"context"
	"errors"
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/informd/informd/internal/display"
	"github.com/informd/informd/pkg/dynwatch/internal/kube"
)

// Wanted is a resource as an entry names it.
type Wanted struct {
	// Version is empty for the one that the API server prefers.
	Group, Version, Resource string
	// NamespaceKeys names the keys of the entry that a cluster-scoped resource cannot have.
	NamespaceKeys string
	// Earlier are the groups of earlier entries with the same plural name, joined by commas.
	Earlier string
}

// Resolved is what discovery says about a resource.
type Resolved struct {
	GVR        schema.GroupVersionResource
	Kind       string
	Namespaced bool
}

// unknownResource is a [kube.ErrNotServed] about a group that is served.
type unknownResource struct {
	resource, where string
	others          []string // the resources that are served there
}

// Error names the resource, where it is missing, and the one that was probably meant.
func (e *unknownResource) Error() string {
	return fmt.Sprintf("%v: the API server has no resource %q in %s%s", kube.ErrNotServed, e.resource, e.where, display.DidYouMean(e.resource, e.others))
}

// Unwrap returns kube.ErrNotServed.
func (*unknownResource) Unwrap() error { return kube.ErrNotServed }

// ErrUnusable says that the resource is served but cannot be watched as wanted.
var ErrUnusable = errors.New("cannot be watched")

// Resolve looks a resource up. [kube.ErrNotServed] means that it is not there now (see
// [kube.IsUnconfirmed]), [ErrUnusable] that it is there and unfit; any other error says nothing about
// the resource.
func Resolve(ctx context.Context, d *kube.Discovery, s Wanted) (r Resolved, err error) {
	g := kube.NewGuard(ctx)
	defer g.Close()
	defer func() { err = g.Explain(err) }()
	ctx = g.Context
	versions := []string{s.Version}
	if s.Version == "" {
		if versions, err = kube.ServedVersions(ctx, d, s.Group); err != nil {
			return Resolved{}, err
		}
	}
	var unread error // the last version that answered 404
	unknown := &unknownResource{resource: s.Resource, where: describeVersions(s)}
	for _, version := range versions {
		gv := schema.GroupVersion{Group: s.Group, Version: version}
		resources, err := kube.ResourcesOf(ctx, d, gv)
		if kube.IsUnconfirmed(err) {
			unread = err
			continue
		}
		if err != nil {
			return Resolved{}, err
		}
		i := slices.IndexFunc(resources, func(r metav1.APIResource) bool { return r.Name == s.Resource })
		if i < 0 {
			unknown.others = append(unknown.others, listable(resources)...)
			continue
		}
		if err := fit(s, &resources[i]); err != nil {
			return Resolved{}, err
		}
		r = Resolved{GVR: gv.WithResource(s.Resource), Kind: resources[i].Kind, Namespaced: resources[i].Namespaced}
		return r, checkAlias(s)
	}
	if unread != nil {
		return Resolved{}, s.absent(ctx, d, unread, unknown)
	}
	return Resolved{}, unknown
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

func describeVersions(s Wanted) string {
	switch {
	case s.Version != "":
		return schema.GroupVersion{Group: s.Group, Version: s.Version}.String()
	case s.Group == "":
		return "the core group"
	default:
		return s.Group
	}
}

// fit checks that a served resource can be watched as the entry wants it.
func fit(s Wanted, r *metav1.APIResource) error {
	for _, verb := range []string{"list", "watch"} {
		if !slices.Contains(r.Verbs, verb) {
			return fmt.Errorf("%w: the API server does not offer %s for the resource", ErrUnusable, verb)
		}
	}
	if s.NamespaceKeys != "" && !r.Namespaced {
		return fmt.Errorf("%w: the resource is cluster-scoped; remove %s from its entry", ErrUnusable, s.NamespaceKeys)
	}
	return nil
}

// absent says what a 404 for the only version that is wanted means.
func (s Wanted) absent(ctx context.Context, d *kube.Discovery, unread, unknown error) error {
	if s.Version == "" {
		return unread
	}
	versions, err := kube.ServedVersions(ctx, d, s.Group)
	switch {
	case err != nil:
		return err
	case slices.Contains(versions, s.Version):
		return unread
	default:
		return unknown // the document of the group does not have the version
	}
}

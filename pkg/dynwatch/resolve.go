package dynwatch

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/rest"
)

// resolved is what discovery says about a resource.
type resolved struct {
	gvr        schema.GroupVersionResource
	kind       string
	namespaced bool
}

// errNotServed: the API server answered, and does not serve the resource.
var errNotServed = errors.New("not served")

// unknownResource is an errNotServed about a group that is served.
type unknownResource struct {
	resource, where string
	others          []string // the resources that are served there
}

// Error says what is not served, and where.
func (e *unknownResource) Error() string {
	return fmt.Sprintf("%v: the API server has no resource %q in %s", errNotServed, e.resource, e.where)
}

// Unwrap returns errNotServed.
func (*unknownResource) Unwrap() error { return errNotServed }

// errUnusable: the resource is served but cannot be watched as wanted.
var errUnusable = errors.New("cannot be watched")

// discovery reads the documents of one group or one version. client-go's discovery
// client would bring in every built-in API type, and asks for all groups where one
// is enough. Who asks for a document that another has just asked for shares the
// answer: a nudge can wake hundreds of targets of a group at once. It may be called
// concurrently.
type discovery struct {
	client rest.Interface

	mu    sync.Mutex // for a moment only
	asked map[string]*document
}

// document is one that was asked for. The other fields are valid once done is
// closed.
type document struct {
	done   chan struct{}
	result rest.Result
	// abandoned: who asked did not wait for the answer.
	abandoned bool
}

func newDiscovery(config *rest.Config, client *http.Client) (*discovery, error) {
	scheme := runtime.NewScheme()
	metav1.AddToGroupVersion(scheme, schema.GroupVersion{Version: "v1"})
	c := rest.CopyConfig(config)
	c.GroupVersion = &schema.GroupVersion{}
	c.NegotiatedSerializer = serializer.NewCodecFactory(scheme).WithoutConversion()
	c.ContentType = runtime.ContentTypeJSON
	c.AcceptContentTypes = runtime.ContentTypeJSON
	documents, err := rest.UnversionedRESTClientForConfigAndClient(c, client)
	return &discovery{client: documents, asked: make(map[string]*document)}, err
}

// get decodes a document of a kind into doc. A document of another kind is an error, and
// so is one that is not JSON: a proxy sent it, and it says nothing about resources.
func (d *discovery) get(ctx context.Context, kind string, doc any, path ...string) error {
	name := strings.Join(path, "/")
	for {
		d.mu.Lock()
		a, shared := d.asked[name]
		if !shared {
			a = &document{done: make(chan struct{})}
			d.asked[name] = a
		}
		d.mu.Unlock()
		if !shared {
			d.ask(ctx, name, a, path)
			return decodeDocument(a.result, kind, doc)
		}
		select {
		case <-a.done:
		case <-ctx.Done():
			return ctx.Err()
		}
		if !a.abandoned {
			return decodeDocument(a.result, kind, doc)
		}
	}
}

func decodeDocument(result rest.Result, kind string, doc any) error {
	if err := result.Error(); err != nil {
		return err
	}
	body, err := result.Raw()
	if err != nil {
		return err
	}
	var is metav1.TypeMeta
	if err := json.Unmarshal(body, &is); err != nil {
		return fmt.Errorf("read %s: %w", kind, err)
	}
	if is.Kind != kind {
		return fmt.Errorf("read %s: the answer has kind %q", kind, is.Kind)
	}
	if err := json.Unmarshal(body, doc); err != nil {
		return fmt.Errorf("read %s: %w", kind, err)
	}
	return nil
}

// ask asks once, as package frame's clients do. Left to itself, client-go tries ten
// times, a second apart, before anyone hears of an error; the target's loop shows
// it at once and paces itself.
func (d *discovery) ask(ctx context.Context, name string, a *document, path []string) {
	a.result = d.client.Get().MaxRetries(0).AbsPath(path...).Do(ctx)
	a.abandoned = ctx.Err() != nil
	d.mu.Lock()
	delete(d.asked, name)
	d.mu.Unlock()
	close(a.done)
}

// resolve looks the spec's resource up. errNotServed means that it is not there
// now (if it is an [unconfirmed], only a 404 says so), errUnusable that it is there and
// unfit, errUntold (with what it is) that it may be unfit; any other error says nothing
// about the resource.
func resolve(ctx context.Context, d *discovery, s spec) (r resolved, err error) {
	g := newGuard(ctx)
	defer g.close()
	defer func() { err = g.explain(err) }()
	ctx = g.ctx
	versions := []string{s.version}
	if s.version == "" {
		if versions, err = servedVersions(ctx, d, s.group); err != nil {
			return resolved{}, err
		}
	}
	var unread error // the last version that answered 404
	unknown := &unknownResource{resource: s.resource, where: describeVersions(s)}
	for _, version := range versions {
		gv := schema.GroupVersion{Group: s.group, Version: version}
		resources, err := resourcesOf(ctx, d, gv)
		if isUnconfirmed(err) {
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
			return fmt.Errorf("%w: the API server offers no %s for it", errUnusable, verb)
		}
	}
	if (s.namespace != "" || s.filters()) && !r.Namespaced {
		return fmt.Errorf("%w: it is cluster-scoped, remove %s from its entry", errUnusable, s.namespaceKeys())
	}
	return nil
}

// absent says what a 404 for the only version that is wanted means.
func (s spec) absent(ctx context.Context, d *discovery, unread, unknown error) error {
	if s.version == "" {
		return unread
	}
	versions, err := servedVersions(ctx, d, s.group)
	switch {
	case err != nil:
		return err
	case slices.Contains(versions, s.version):
		return unread
	default:
		return unknown // the document of the group does not have the version
	}
}

// servedVersions lists the group's versions, the preferred one first.
func servedVersions(ctx context.Context, d *discovery, group string) ([]string, error) {
	if group == "" {
		return []string{"v1"}, nil
	}
	var doc metav1.APIGroup
	err := d.get(ctx, "APIGroup", &doc, "/apis", group)
	if apierrors.IsNotFound(err) {
		return nil, d.groupAbsent(ctx, group)
	}
	if err != nil {
		return nil, fmt.Errorf("get API group %s: %w", group, err)
	}
	return versionsOf(&doc), nil
}

// versionsOf are the versions of a group, the preferred one first.
func versionsOf(group *metav1.APIGroup) []string {
	versions := []string{group.PreferredVersion.Version}
	for _, v := range group.Versions {
		if v.Version != group.PreferredVersion.Version {
			versions = append(versions, v.Version)
		}
	}
	return versions
}

// resourcesOf lists the resources of a version that its group has. A 404 is an
// [unconfirmed].
func resourcesOf(ctx context.Context, d *discovery, gv schema.GroupVersion) ([]metav1.APIResource, error) {
	path := []string{"/apis", gv.Group, gv.Version}
	if gv.Group == "" {
		path = []string{"/api", gv.Version}
	}
	var doc metav1.APIResourceList
	err := d.get(ctx, "APIResourceList", &doc, path...)
	if apierrors.IsNotFound(err) {
		return nil, &unconfirmed{why: fmt.Sprintf("the API server answers 404 for the resources of %s", gv)}
	}
	if err != nil {
		return nil, fmt.Errorf("get API resources of %s: %w", gv, err)
	}
	return doc.APIResources, nil
}

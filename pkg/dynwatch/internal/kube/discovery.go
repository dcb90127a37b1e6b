package kube

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

// unconfirmed is an [ErrNotServed] that only a 404 says. No document confirms it, so informd
// keeps the objects.
type unconfirmed struct {
	why string
	// outage: the list of groups is unreadable, too.
	outage bool
}

// Error says which 404 it was, and which document does not confirm it.
func (u *unconfirmed) Error() string { return fmt.Sprintf("%v, unconfirmed: %s", ErrNotServed, u.why) }

// Unwrap returns ErrNotServed.
func (*unconfirmed) Unwrap() error { return ErrNotServed }

// IsUnconfirmed reports whether err is an [ErrNotServed] that only a 404 says.
func IsUnconfirmed(err error) bool {
	_, is := errors.AsType[*unconfirmed](err)
	return is
}

// IsOutage reports whether err is unconfirmed by an API server that does not list its groups
// either.
func IsOutage(err error) bool {
	u, is := errors.AsType[*unconfirmed](err)
	return is && u.outage
}

// GroupAbsent explains a 404 for a group: ErrNotServed if the API server lists its groups
// without it, otherwise an unconfirmed one.
func (d *Discovery) GroupAbsent(ctx context.Context, group string) error {
	names, err := d.groupNames(ctx)
	switch {
	case err != nil:
		return &unconfirmed{fmt.Sprintf("the API server answers 404 for group %q, and its list of groups cannot be read: %v", group, err), true}
	case slices.Contains(names, group):
		return &unconfirmed{why: fmt.Sprintf("the API server answers 404 for group %q and lists it among its groups", group)}
	default:
		return fmt.Errorf("%w: the API server has no group %q", ErrNotServed, group)
	}
}

// groupNames lists the groups without the core group.
func (d *Discovery) groupNames(ctx context.Context) ([]string, error) {
	var all metav1.APIGroupList
	if err := d.get(ctx, "APIGroupList", &all, "/apis"); err != nil {
		return nil, err
	}
	names := make([]string, 0, len(all.Groups))
	for i := range all.Groups {
		names = append(names, all.Groups[i].Name)
	}
	return names, nil
}

// ErrNotServed says that the API server answered and does not serve the resource.
var ErrNotServed = errors.New("not served")

// Discovery reads the documents of one group or one version. client-go's discovery client
// imports every built-in API type, and requests all groups where one is enough. Concurrent
// callers share the request for a document: one change can wake hundreds of targets of a
// group. It may be called concurrently.
type Discovery struct {
	Client rest.Interface

	mu    sync.Mutex // for a moment only
	asked map[string]*document
}

// document is one request. The other fields are valid once done is closed.
type document struct {
	done   chan struct{}
	result rest.Result
	// abandoned: the caller that made the request did not wait for the answer.
	abandoned bool
}

func newDiscovery(config *rest.Config, client *http.Client) (*Discovery, error) {
	scheme := runtime.NewScheme()
	metav1.AddToGroupVersion(scheme, schema.GroupVersion{Version: "v1"})
	c := rest.CopyConfig(config)
	c.GroupVersion = &schema.GroupVersion{}
	c.NegotiatedSerializer = serializer.NewCodecFactory(scheme).WithoutConversion()
	c.ContentType = runtime.ContentTypeJSON
	c.AcceptContentTypes = runtime.ContentTypeJSON
	documents, err := rest.UnversionedRESTClientForConfigAndClient(c, client)
	return &Discovery{Client: documents, asked: make(map[string]*document)}, err
}

// get decodes a document of a kind into doc. A document of another kind is an error. So is
// one that is no JSON: a proxy sent it, and it says nothing about resources.
func (d *Discovery) get(ctx context.Context, kind string, doc any, path ...string) error {
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

// ask makes one request without retries, as package frame's clients do. client-go alone would
// try ten times, a second apart, before it returns an error; the target's loop shows the
// error at once and paces itself.
func (d *Discovery) ask(ctx context.Context, name string, a *document, path []string) {
	a.result = d.Client.Get().MaxRetries(0).AbsPath(path...).Do(ctx)
	a.abandoned = ctx.Err() != nil
	d.mu.Lock()
	delete(d.asked, name)
	d.mu.Unlock()
	close(a.done)
}

// ServedVersions lists the group's versions, the preferred one first.
func ServedVersions(ctx context.Context, d *Discovery, group string) ([]string, error) {
	if group == "" {
		return []string{"v1"}, nil
	}
	var doc metav1.APIGroup
	err := d.get(ctx, "APIGroup", &doc, "/apis", group)
	if apierrors.IsNotFound(err) {
		return nil, d.GroupAbsent(ctx, group)
	}
	if err != nil {
		return nil, fmt.Errorf("get API group %s: %w", group, err)
	}
	return VersionsOf(&doc), nil
}

// VersionsOf returns the versions of a group's document, the preferred one first.
func VersionsOf(group *metav1.APIGroup) []string {
	versions := []string{group.PreferredVersion.Version}
	for _, v := range group.Versions {
		if v.Version != group.PreferredVersion.Version {
			versions = append(versions, v.Version)
		}
	}
	return versions
}

// FindResource returns the first resource of a group that matches, with its version; the
// preferred version comes first. It returns nil if there is none.
func FindResource(ctx context.Context, d *Discovery, group string, match func(r *metav1.APIResource) bool) (*metav1.APIResource, string, error) {
	versions, err := ServedVersions(ctx, d, group)
	for _, version := range versions {
		resources, err := ResourcesOf(ctx, d, schema.GroupVersion{Group: group, Version: version})
		if err != nil {
			return nil, "", err
		}
		for i := range resources {
			if match(&resources[i]) {
				return &resources[i], version, nil
			}
		}
	}
	return nil, "", err
}

// ResourcesOf lists the resources of a version that its group has. After a 404 the error is
// unconfirmed.
func ResourcesOf(ctx context.Context, d *Discovery, gv schema.GroupVersion) ([]metav1.APIResource, error) {
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

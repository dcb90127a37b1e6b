package dynwatch

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/informd/informd/pkg/dynwatch/internal/kube"
	"github.com/informd/informd/pkg/event"
)

// Some resources are served in two groups, as Events are: one storage has two names.
// Of two entries for them the first one in order has the objects; the other one would
// announce each of them a second time.

// errUntold: an API server that was asked about a namesake does not answer.
var errUntold = errors.New("informd cannot check whether the resource is an alias")

// errDenied: the namesake's API server answers 404, and no document confirms it.
var errDenied = errors.New("404")

// withoutDenial keeps a denial of the namesake from looking like one of the resource.
func withoutDenial(err error) error {
	if kube.IsUnconfirmed(err) {
		return fmt.Errorf("%w: %v", errDenied, err) //nolint:errorlint // see above
	}
	return err
}

// nameEarlier notes in each spec the groups of the entries before it that name a
// resource the same way, joined by commas.
func nameEarlier(wanted []Resource, targets map[string]spec) {
	groups := make(map[string][]string) // by resource
	for _, r := range wanted {
		if r.wild() {
			continue
		}
		for name, s := range targets {
			if s.group == r.Group && s.resource == r.Resource {
				s.earlier = strings.Join(groups[r.Resource], ",")
				targets[name] = s
			}
		}
		groups[r.Resource] = append(groups[r.Resource], event.GroupOrCore(r.Group))
	}
}

// checkTwins returns errUnusable if an entry before the spec's has the objects of the
// resource under another name.
func checkTwins(ctx context.Context, d *kube.Discovery, s spec, r *metav1.APIResource) error {
	if s.earlier == "" || r.StorageVersionHash == "" {
		return nil
	}
	for group := range strings.SplitSeq(s.earlier, ",") {
		other := parseName(group + "/" + s.resource)
		same, err := sameStorage(ctx, d, other, r)
		if err != nil {
			return fmt.Errorf("%w of %s: %w", errUntold, nameOf(other), withoutDenial(err))
		}
		if same {
			return fmt.Errorf("%w: the resource is an alias of %s, which has an earlier entry: remove one of the two entries, "+
				"and give the other one the namespaces of both", errUnusable, nameOf(other))
		}
	}
	return nil
}

// sameStorage reports whether another name is one of the same objects, in any version.
func sameStorage(ctx context.Context, d *kube.Discovery, other schema.GroupResource, r *metav1.APIResource) (bool, error) {
	versions, err := kube.ServedVersions(ctx, d, other.Group)
	if errors.Is(err, kube.ErrNotServed) && !kube.IsUnconfirmed(err) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	for _, version := range versions {
		resources, err := kube.ResourcesOf(ctx, d, schema.GroupVersion{Group: other.Group, Version: version})
		if err != nil {
			return false, err
		}
		i := slices.IndexFunc(resources, func(r metav1.APIResource) bool { return r.Name == other.Resource })
		if i >= 0 {
			return resources[i].Kind == r.Kind && resources[i].StorageVersionHash == r.StorageVersionHash, nil
		}
	}
	return false, nil
}

// settleTwin decides about a resource of which it cannot be found out whether it has
// an entry already. One API server has both names of a storage: if it goes on to tell
// of one, and nobody of the other, they are not in one.
func (t *target) settleTwin(err error) error {
	if !errors.Is(err, errUntold) {
		t.untoldSince = time.Time{}
		return err
	}
	if t.untoldSince.IsZero() {
		t.untoldSince = time.Now()
	}
	patience := t.timing.unserved
	if errors.Is(err, errDenied) {
		patience = t.timing.withdrawn // it is an outage rather than another API server
	}
	if time.Since(t.untoldSince) < patience {
		return err
	}
	t.logger.Warn("alias not checked; its API server does not answer", "err", err)
	return nil
}

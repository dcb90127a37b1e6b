package catalog

import (
	"context"
	"errors"
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/informd/informd/pkg/dynwatch/internal/kube"
)

// Some resources are served in two groups, as Events are: one storage has two names.
// Of two entries for them the first one in order has the objects; the other one would
// announce each of them a second time.

// ErrAliasUnknown says that the API server of a namesake does not answer.
var ErrAliasUnknown = errors.New("informd cannot check whether the resource is an alias")

// ErrAliasDenied says that the namesake's API server answers 404, and no document confirms it.
var ErrAliasDenied = errors.New("404")

// withoutDenial keeps a denial of the namesake from looking like one of the resource.
func withoutDenial(err error) error {
	if kube.IsUnconfirmed(err) {
		return fmt.Errorf("%w: %v", ErrAliasDenied, err) //nolint:errorlint // see above
	}
	return err
}

// checkAliases returns [ErrUnusable] if an earlier entry has the objects of the
// resource under another name.
func checkAliases(ctx context.Context, d *kube.Discovery, s Wanted, r *metav1.APIResource) error {
	if s.Earlier == "" || r.StorageVersionHash == "" {
		return nil
	}
	for group := range strings.SplitSeq(s.Earlier, ",") {
		other := ParseName(group + "/" + s.Resource)
		same, err := sameStorage(ctx, d, other, r)
		if err != nil {
			return fmt.Errorf("%w of %s: %w", ErrAliasUnknown, NameOf(other), withoutDenial(err))
		}
		if same {
			return fmt.Errorf("%w: the resource is an alias of %s, which has an earlier entry: remove one of the two entries, "+
				"and give the other one the namespaces of both", ErrUnusable, NameOf(other))
		}
	}
	return nil
}

// sameStorage reports whether another name is one of the same objects, in any version.
func sameStorage(ctx context.Context, d *kube.Discovery, other schema.GroupResource, r *metav1.APIResource) (bool, error) {
	found, _, err := kube.FindResource(ctx, d, other.Group, func(r *metav1.APIResource) bool { return r.Name == other.Resource })
	if errors.Is(err, kube.ErrNotServed) && !kube.IsUnconfirmed(err) {
		return false, nil
	}
	return found != nil && found.Kind == r.Kind && found.StorageVersionHash == r.StorageVersionHash, err
}

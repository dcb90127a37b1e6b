package listwatch

import (
	"context"
	"errors"
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
)

const (
	// noName is a name that no object has: it is no DNS name. It is a valid path segment,
	// without which the API server would not look the name up but read every object.
	noName = "-informd-no-object-"
	// noNamespace narrows a list of all namespaces to one key of etcd. It must be valid, and
	// need not exist.
	noNamespace = "informd-no-namespace"
)

// Revision returns the resource's newest revision in etcd.
func (s *Source) Revision(ctx context.Context) (uint64, error) { return s.head(ctx, s.shared) }

// RevisionElsewhere is Revision over a new connection, which may reach another API server.
func (s *Source) RevisionElsewhere(ctx context.Context) (uint64, error) {
	return s.head(ctx, s.other)
}

// head asks for the newest revision with a consistent list of a name that no object has:
// the server reads, decrypts, decodes and converts no object for it. Where the server
// refuses field selectors, head asks for a list of one object.
func (s *Source) head(ctx context.Context, client rest.Interface) (uint64, error) {
	defer s.Clients.Pace.BeginHead(ctx, s.Resource.GVR.Group)()
	options := s.Resource.selected(metav1.ListOptions{Limit: 1})
	r := listRequest{client: client, namespace: s.Resource.Namespace, options: options, identities: true}
	if !s.unselectable.Load() {
		r.options.FieldSelector = s.nothing()
		rv, err := s.headOf(ctx, r)
		if err == nil || !apierrors.IsBadRequest(err) && !apierrors.IsInvalid(err) {
			return rv, err
		}
		s.unselectable.Store(true)
		r.options = options
	}
	return s.headOf(ctx, r)
}

// nothing is the narrowest field selector that the credentials allow: that of the resource,
// and a name that no object has. If the resource selects a name, they may allow no other one.
func (s *Source) nothing() string {
	var terms []string
	if s.Resource.Namespaced && s.Resource.Namespace == "" {
		terms = append(terms, "metadata.namespace="+noNamespace)
	}
	if _, named := SelectedName(s.Resource.FieldSelector); !named {
		terms = append(terms, "metadata.name="+noName)
	}
	if s.Resource.FieldSelector != "" {
		terms = append(terms, s.Resource.FieldSelector)
	}
	return strings.Join(terms, ",")
}

// headOf returns a list's revision. It reads no more items than were asked for, whatever
// the server sends. A server that ignores limits and selectors may send its revision behind
// all items: then head reads past them, and holds none.
func (s *Source) headOf(ctx context.Context, r listRequest) (uint64, error) {
	items := 0
	meta, err := s.readList(ctx, r, func([]byte) error {
		if items++; int64(items) > r.options.Limit {
			return ErrEnough
		}
		return nil
	})
	if errors.Is(err, ErrEnough) && meta.ResourceVersion == 0 {
		meta, err = s.readList(ctx, r, func([]byte) error { return nil })
	}
	switch {
	case apierrors.IsForbidden(err):
		return 0, fmt.Errorf("list: %w", withoutName(err))
	case err != nil && !errors.Is(err, ErrEnough):
		return 0, fmt.Errorf("get revision: %w", err)
	case meta.ResourceVersion == 0:
		return 0, errors.New("get revision: the list has no resourceVersion, and informd cannot watch without one")
	}
	return meta.ResourceVersion, nil
}

// withoutName takes the name that no object has out of a refusal: the API server writes
// `pods "-informd-no-object-" is forbidden`, and an operator would look for that object.
func withoutName(err error) error {
	var refused *apierrors.StatusError
	name := fmt.Sprintf(" %q", noName)
	if !errors.As(err, &refused) || !strings.Contains(refused.ErrStatus.Message, name) {
		return err
	}
	status := refused.ErrStatus
	status.Message = strings.Replace(status.Message, name, "", 1)
	return &apierrors.StatusError{ErrStatus: status}
}

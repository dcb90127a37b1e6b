package listwatch

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strconv"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/informd/informd/pkg/dynwatch/internal/kube"
)

const (
	// minWatch is the least time after which the server is asked to end a watch;
	// the real one is random up to twice that, so that watches do not all end
	// together.
	minWatch = 5 * time.Minute
)

// Watch opens a watch from rv, which lasts until ctx ends at the latest; end ctx
// when done with it. Its events carry *frame.Watched, or *metav1.Status
// for watch.Error. A watch of whole objects has a separate connection, if there are not
// too many. With fresh it has a new connection, see [kube.Clients.Other].
func (s *Source) Watch(ctx context.Context, rv uint64, fresh bool) (watch.Interface, error) {
	client := s.shared
	if fresh {
		client = s.other
	}
	s.Clients.Pace.Open(ctx, s.Resource.GVR.Group)
	g := kube.NewGuard(ctx)
	defer g.Pause()                                           // once the watch is open, the watchdog is its guard
	seconds := int64((minWatch + rand.N(minWatch)).Seconds()) //nolint:gosec // jitter, not a secret
	options := s.Resource.selected(metav1.ListOptions{
		ResourceVersion:     strconv.FormatUint(rv, 10),
		AllowWatchBookmarks: true,
		TimeoutSeconds:      &seconds,
	})
	refused := false
	if !fresh && !s.Resource.MetadataOnly && s.Clients.TakeSlot(ctx) {
		traced, gather := s.Clients.Bursts(g.Context)
		w, err := s.open(traced, s.apart, options)
		if err == nil {
			gather()
			return w, nil
		}
		if refused = apierrors.ReasonForError(err) == metav1.StatusReasonUnknown; !refused {
			s.Clients.Pace.Note(s.Resource.GVR.Group, err)
			return nil, fmt.Errorf("watch: %w", g.Explain(err))
		}
	}
	w, err := s.open(g.Context, client, options)
	if err == nil && refused {
		s.Clients.Share()
	}
	if err != nil {
		s.Clients.Pace.Note(s.Resource.GVR.Group, err)
		return nil, fmt.Errorf("watch: %w", g.Explain(err))
	}
	return w, nil
}

// open opens a watch with client-go's dynamic client.
func (s *Source) open(ctx context.Context, over rest.Interface, o metav1.ListOptions) (watch.Interface, error) {
	return dynamic.New(over).Resource(s.Resource.GVR).Namespace(s.Resource.Namespace).Watch(ctx, o)
}

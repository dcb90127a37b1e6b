package listwatch

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"

	"github.com/informd/informd/pkg/dynwatch/internal/frame"
	"github.com/informd/informd/pkg/dynwatch/internal/kube"
)

// lookAttempts is how often an object is looked up until a failure counts.
const lookAttempts = 4

// ObjectAt returns an object by name as it was at rv (now if rv is 0), whether
// or not the selection holds it, and false if there was none. A single object at
// an exact revision is always served by etcd, and never by the watch cache.
// The error is [ErrOutside] if the selection does not hold it and the credentials
// allow no other look.
func (s *Source) ObjectAt(ctx context.Context, namespace, name string, rv uint64) (frame.Object, bool, error) {
	found, ok, _, err := s.Look(ctx, namespace, name, rv)
	return found, ok, err
}

// MatchAt is ObjectAt for the selection: false also stands for an object that
// does not match it at rv.
func (s *Source) MatchAt(ctx context.Context, namespace, name string, rv uint64) (frame.Object, bool, error) {
	found, ok, _, err := s.MatchBy(ctx, namespace, name, rv)
	return found, ok, err
}

// MatchBy is MatchAt, and the revision of the answer.
func (s *Source) MatchBy(ctx context.Context, namespace, name string, rv uint64) (frame.Object, bool, uint64, error) {
	o := byName(rv, name)
	o.LabelSelector = s.Resource.LabelSelector
	if s.Resource.FieldSelector != "" {
		o.FieldSelector = s.Resource.FieldSelector + "," + o.FieldSelector // of two names, permissions go by the first
	}
	return s.lookBy(ctx, namespace, name, rv, o)
}

// Look is ObjectAt, and the revision at which it looked.
func (s *Source) Look(ctx context.Context, namespace, name string, rv uint64) (frame.Object, bool, uint64, error) {
	anywhere := func() (frame.Object, bool, uint64, error) {
		return s.lookBy(ctx, namespace, name, rv, byName(rv, name))
	}
	if !s.confined() {
		if found, ok, at, err := anywhere(); !s.Resource.Selects() || !apierrors.IsForbidden(err) {
			return found, ok, at, err
		}
	}
	found, ok, at, err := s.MatchBy(ctx, namespace, name, rv)
	if ok || apierrors.IsForbidden(err) {
		return found, ok, at, err
	}
	if !s.confined() {
		// Again: an API server that has just started refuses everything for a moment.
		if found, ok, at, err := anywhere(); !apierrors.IsForbidden(err) {
			return found, ok, at, err
		}
		s.confine()
	}
	if err == nil {
		err = fmt.Errorf("get %s/%s at revision %d: %w", namespace, name, rv, ErrOutside)
	}
	return found, false, at, err
}

// byName is the options of a list of one object.
func byName(rv uint64, name string) metav1.ListOptions {
	o := page(rv, "")
	o.FieldSelector = fields.OneTermEqualSelector("metadata.name", name).String()
	return o
}

// lookBy looks an object up. A failure that can pass costs another attempt and not all that
// a comparison has read so far: there are up to [lookAttempts].
func (s *Source) lookBy(ctx context.Context, namespace, name string, rv uint64, o metav1.ListOptions) (frame.Object, bool, uint64, error) {
	for retry := (pageRetry{}); ; {
		found, ok, at, err := s.lookOnce(ctx, namespace, name, rv, o)
		if !canPass(err) || retry.attempts+1 >= lookAttempts || !retry.wait(ctx, err, pageTime) {
			return found, ok, at, err
		}
	}
}

// canPass reports whether another attempt can succeed soon: the connection broke, the server
// is overloaded, or the server, or a proxy before it, is not available.
func canPass(err error) bool {
	if _, bad := errors.AsType[*frame.Malformed](err); bad || err == nil || Unsupported(err) ||
		errors.Is(err, kube.ErrStalled) || errors.Is(err, kube.ErrOtherCluster) || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return false
	}
	if wait, _ := kube.SuggestedDelay(err); wait > kube.PaceClosed {
		return false // the caller waits
	}
	switch apierrors.ReasonForError(err) {
	case metav1.StatusReasonUnknown, metav1.StatusReasonServiceUnavailable, metav1.StatusReasonTimeout, metav1.StatusReasonServerTimeout,
		metav1.StatusReasonTooManyRequests:
		return true
	case metav1.StatusReasonNotFound, metav1.StatusReasonInternalError:
		return ofProxy(err)
	default:
		return false
	}
}

// ofProxy reports whether an answer is no Status, as those of a proxy.
func ofProxy(err error) bool {
	return apierrors.HasStatusCause(err, metav1.CauseTypeUnexpectedServerResponse)
}

func (s *Source) lookOnce(ctx context.Context, namespace, name string, rv uint64, o metav1.ListOptions) (frame.Object, bool, uint64, error) {
	defer s.Clients.Pace.Begin(ctx, s.Resource.GVR.Group)()
	var found frame.Object
	var ok bool
	meta, err := s.readList(ctx, listRequest{client: s.shared, namespace: namespace, options: o}, func(raw []byte) error {
		one, err := s.Whole.Normalise(raw)
		is := one.Name
		if bad, isBad := errors.AsType[*frame.Malformed](err); isBad {
			is = cmp.Or(bad.Name, name)
		}
		if is != name {
			return ErrUnselected
		}
		found, ok = one, err == nil
		return err
	})
	if err == nil && rv != 0 && meta.ResourceVersion != rv {
		err = ErrInexact
	}
	if err != nil {
		return frame.Object{}, false, 0, fmt.Errorf("get %s/%s at revision %d: %w", namespace, name, rv, err)
	}
	return found, ok, meta.ResourceVersion, nil
}

// Answers reads an object, if there is one: the server has to convert it.
func (s *Source) Answers(ctx context.Context) error {
	_, err := s.ReadFew(ctx, s.Resource.Namespace, 1, func([]byte) error { return ErrEnough })
	if errors.Is(err, ErrEnough) {
		return nil
	}
	return err
}

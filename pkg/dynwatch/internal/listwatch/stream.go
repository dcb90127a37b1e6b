package listwatch

import (
	"context"
	"errors"
	"io"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	"github.com/informd/informd/pkg/dynwatch/internal/frame"
	"github.com/informd/informd/pkg/dynwatch/internal/kube"
)

// listRequest is one list request.
type listRequest struct {
	client    rest.Interface
	namespace string
	options   metav1.ListOptions
	// identities: metadata alone is wanted, and whole objects will do.
	identities bool
}

// readList makes one list request and streams its items. The bytes given to item are
// valid during the call only. Item ends the list early with [ErrEnough]; the metadata is
// what was read up to there then.
func (s *Source) readList(ctx context.Context, r listRequest, item func(raw []byte) error) (frame.ListMeta, error) {
	return s.stream(ctx, r, func(body io.Reader, g *kube.Guard) (frame.ListMeta, error) {
		return frame.ReadList(body, maxObject, func(raw []byte) error {
			g.Pause()
			defer g.Resume()
			if err := item(raw); err != nil {
				return &takerError{err}
			}
			return nil
		})
	})
}

// ReadFew is readList for the first n objects of the selection. The server may send more.
func (s *Source) ReadFew(ctx context.Context, namespace string, n int, item func(raw []byte) error) (frame.ListMeta, error) {
	o := s.Resource.selected(metav1.ListOptions{Limit: int64(n)})
	return s.readList(ctx, listRequest{client: s.bytes, namespace: namespace, options: o}, item)
}

// stream makes one list request and has read read the answer. If client is the one with
// connections of their own, and no answer comes, the shared connection is asked.
func (s *Source) stream(ctx context.Context, r listRequest, read func(body io.Reader, g *kube.Guard) (frame.ListMeta, error)) (meta frame.ListMeta, err error) {
	s.Clients.Pace.Open(ctx, s.Resource.GVR.Group)
	g := kube.NewGuard(ctx)
	defer g.Close()
	defer func() {
		err = g.Explain(err)
		s.Clients.Pace.Note(s.Resource.GVR.Group, err)
	}()
	ask := func(client rest.Interface) (io.ReadCloser, error) {
		request := client.Get().AbsPath(s.path(r.namespace)...).SpecificallyVersionedParams(&r.options, metav1.ParameterCodec, schema.GroupVersion{Version: "v1"})
		if r.identities {
			request.SetHeader("Accept", frame.AcceptIdentities)
		}
		return request.Stream(g.Context)
	}
	body, err := ask(r.client)
	if err != nil && r.client == s.apartBytes && apierrors.ReasonForError(err) == metav1.StatusReasonUnknown {
		if body, err = ask(s.bytes); err == nil {
			s.shareLists()
		}
	}
	if err != nil {
		return frame.ListMeta{}, err
	}
	defer func() { err = errors.Join(err, body.Close()) }()
	if err := s.Clients.Identity.Confirm(g.Context); err != nil {
		return frame.ListMeta{}, err
	}
	if meta, err = read(body, g); err != nil {
		if _, mine := errors.AsType[*takerError](err); !mine && r.client == s.apartBytes && ctx.Err() == nil {
			s.shareLists() // whatever it was: that one works as well
		}
		return meta, err
	}
	// Read to the end, so that an HTTP/1.1 connection can be used again.
	_, err = io.Copy(io.Discard, body)
	return meta, err
}

// shareLists has lists share a connection for some time.
func (s *Source) shareLists() { s.listsShare.Store(time.Now().Add(kube.RefusedApart).UnixNano()) }

func (s *Source) path(namespace string) []string {
	gvr := s.Resource.GVR
	path := []string{"/apis", gvr.Group, gvr.Version}
	if gvr.Group == "" {
		path = []string{"/api", gvr.Version}
	}
	if namespace != "" {
		path = append(path, "namespaces", namespace)
	}
	return append(path, gvr.Resource)
}

package listwatch

import (
	"context"
	"errors"
	"io"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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
	return s.readList(ctx, listRequest{client: s.shared, namespace: namespace, options: o}, item)
}

// stream makes one list request and has read read the answer.
func (s *Source) stream(ctx context.Context, r listRequest, read func(body io.Reader, g *kube.Guard) (frame.ListMeta, error)) (meta frame.ListMeta, err error) {
	s.Clients.Pace.Open(ctx, s.Resource.GVR.Group)
	g := kube.NewGuard(ctx)
	defer g.Close()
	defer func() {
		err = g.Explain(err)
		s.Clients.Pace.Note(s.Resource.GVR.Group, err)
	}()
	request := s.request(r.client, r.namespace, &r.options)
	if r.identities {
		request.SetHeader("Accept", frame.AcceptIdentities)
	}
	body, err := request.Stream(g.Context)
	if err != nil {
		return frame.ListMeta{}, err
	}
	defer func() { err = errors.Join(err, body.Close()) }()
	if err := s.Clients.Identity.Confirm(g.Context); err != nil {
		return frame.ListMeta{}, err
	}
	if meta, err = read(body, g); err != nil {
		return meta, err
	}
	// Read to the end, so that an HTTP/1.1 connection can be used again.
	_, err = io.Copy(io.Discard, body)
	return meta, err
}

package frame

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// negotiator hands client-go the decoders for what the server sends: our own for
// watches, a new set for each, and one for the Status of an error. All else is read as a stream.
type negotiator struct {
	frames *Normaliser
	// large are the buffers for large frames that no watch uses now.
	large sync.Pool
}

// Encoder returns the encoder of request bodies. informd sends none.
func (n *negotiator) Encoder(string, map[string]string) (runtime.Encoder, error) {
	return nil, errReadOnly
}

// Decoder returns the decoder of whole responses.
func (n *negotiator) Decoder(contentType string, _ map[string]string) (runtime.Decoder, error) {
	if contentType != runtime.ContentTypeJSON {
		return nil, runtime.NegotiateError{ContentType: contentType}
	}
	return resultDecoder{}, nil
}

// StreamDecoder returns the parts of one watch. A content type that is not JSON is
// reported by the first Read: client-go 0.37 does not close the response's body
// after an error here.
func (n *negotiator) StreamDecoder(contentType string, _ map[string]string) (runtime.Decoder, runtime.Serializer, runtime.Framer, error) {
	s := &stream{frames: n.frames}
	s.window.max, s.window.least = maxFrame, watchRead
	s.window.large = &n.large
	if contentType != runtime.ContentTypeJSON {
		s.window.err = fmt.Errorf("read watch response: the content type is %q, not %s", contentType, runtime.ContentTypeJSON)
	}
	return objectDecoder{s}, envelopeDecoder{s}, framer{s}, nil
}

// framer hands the response's body to the stream.
type framer struct{ stream *stream }

func (f framer) NewFrameReader(r io.ReadCloser) io.ReadCloser {
	f.stream.body, f.stream.window.r = r, r
	return f.stream
}

func (f framer) NewFrameWriter(io.Writer) io.Writer { return readOnly{} }

// errReadOnly is for what client-go's interfaces want and no watch calls.
var errReadOnly = errors.New("watch frames are only read")

// readOnly is a writer that refuses.
type readOnly struct{}

func (readOnly) Write([]byte) (int, error) { return 0, errReadOnly }

// envelopeDecoder tells client-go the type of the frame that was just read.
type envelopeDecoder struct{ stream *stream }

// Decode sets into, a WatchEvent, but for its object, which [objectDecoder] has.
func (d envelopeDecoder) Decode(_ []byte, _ *schema.GroupVersionKind, into runtime.Object) (runtime.Object, *schema.GroupVersionKind, error) {
	e, ok := into.(*metav1.WatchEvent)
	if !ok {
		return nil, nil, fmt.Errorf("decode watch frame: into %T, not a WatchEvent", into)
	}
	e.Type = string(d.stream.kind)
	return e, nil, nil
}

func (envelopeDecoder) Encode(runtime.Object, io.Writer) error { return errReadOnly }

func (envelopeDecoder) Identifier() runtime.Identifier { return "informd-frame" }

// objectDecoder hands over the object of the frame that was just read.
type objectDecoder struct{ stream *stream }

func (d objectDecoder) Decode([]byte, *schema.GroupVersionKind, runtime.Object) (runtime.Object, *schema.GroupVersionKind, error) {
	object := d.stream.object
	d.stream.object = nil
	return object, nil, nil
}

// resultDecoder decodes a Status as [*metav1.Status], which is what client-go makes its errors of.
type resultDecoder struct{}

func (resultDecoder) Decode(data []byte, _ *schema.GroupVersionKind, _ runtime.Object) (runtime.Object, *schema.GroupVersionKind, error) {
	var s metav1.Status
	if err := json.Unmarshal(data, &s); err != nil {
		return nil, nil, fmt.Errorf("decode response: %w", err)
	}
	if s.Kind != "Status" {
		return nil, nil, fmt.Errorf("decode response: the answer has kind %q", s.Kind)
	}
	kind := s.GroupVersionKind()
	return &s, &kind, nil
}

package frame

import (
	"cmp"
	"fmt"
	"net/http"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
)

const (
	acceptFull     = runtime.ContentTypeJSON
	acceptMetadata = runtime.ContentTypeJSON + ";as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
	acceptMetaList = runtime.ContentTypeJSON + ";as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
	// AcceptIdentity asks for the metadata of an object, or, of a server that has no such
	// answers, for the whole object.
	AcceptIdentity = acceptMetadata + "," + acceptFull
	// AcceptIdentities asks for a list of metadata, or, of a server that has no such lists,
	// for whole objects.
	AcceptIdentities = acceptMetaList + "," + acceptFull
)

// NewRESTClient returns the client for dynamic.New and for streamed lists: its watches deliver
// [*Watched] (ERROR frames: [*metav1.Status]), and its errors are those of client-go. Of
// config it takes the server's address and the handler of warnings; all else (TLS,
// credentials, user agent, DisableCompression) is httpClient's. With metadataOnly the server is
// asked for PartialObjectMetadata.
//
// There is no rate limit, and a request that fails with Retry-After is not sent
// again behind the caller's back, as client-go's ten times: the error says when,
// and the caller knows what else waits.
func NewRESTClient(config *rest.Config, httpClient *http.Client, n *Normaliser, metadataOnly bool) (rest.Interface, error) {
	base, _, err := rest.DefaultServerUrlFor(config)
	if err != nil {
		return nil, fmt.Errorf("read address of the API server: %w", err)
	}
	own := *cmp.Or(httpClient, &http.Client{})
	own.Transport = &transport{next: cmp.Or(own.Transport, http.DefaultTransport), metadataOnly: metadataOnly}
	client, err := rest.NewRESTClient(base, "", rest.ClientContentConfig{
		AcceptContentTypes: acceptFull,
		ContentType:        runtime.ContentTypeJSON,
		Negotiator:         &negotiator{frames: n},
	}, nil, &own)
	if err != nil {
		return nil, fmt.Errorf("create client: %w", err)
	}
	return &restClient{RESTClient: client, config: config}, nil
}

// restClient sets what [rest.RESTClient] has no field for on every request.
type restClient struct {
	*rest.RESTClient
	config *rest.Config
}

// Get begins a GET request.
func (c *restClient) Get() *rest.Request { return c.Verb(http.MethodGet) }

// Verb begins a request.
func (c *restClient) Verb(verb string) *rest.Request {
	r := c.RESTClient.Verb(verb).MaxRetries(0)
	switch {
	case c.config.WarningHandlerWithContext != nil:
		r = r.WarningHandlerWithContext(c.config.WarningHandlerWithContext)
	case c.config.WarningHandler != nil:
		r = r.WarningHandler(c.config.WarningHandler)
	}
	return r
}

// transport sets the Accept header of metadata requests and refuses responses that
// are compressed.
type transport struct {
	next         http.RoundTripper
	metadataOnly bool
}

// RoundTrip sends one request.
//
// Which metadata kind to ask for depends on the request, a list or a watch. Naming both kinds does
// not work: the API server takes the first one for which it knows the transform,
// without a look at the request, and then answers a list with 406 or a watch with
// full objects.
func (t *transport) RoundTrip(r *http.Request) (*http.Response, error) {
	if t.metadataOnly {
		r = r.Clone(r.Context())
		accept := acceptMetaList
		if r.URL.Query().Has("watch") {
			accept = acceptMetadata
		}
		r.Header.Set("Accept", accept)
	}
	resp, err := t.next.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	if e := resp.Header.Get("Content-Encoding"); e != "" && e != "identity" {
		resp.Body.Close()
		return nil, fmt.Errorf("the response is compressed (%s), and informd did not request that: disable compression of responses in the proxy before the API server", e)
	}
	return resp, nil
}

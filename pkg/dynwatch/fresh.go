package dynwatch

import (
	"net/http"

	"k8s.io/client-go/rest"
)

// newFreshDiscovery returns a discovery that opens a connection for each request: behind
// a load balancer it reaches one API server after the other.
func newFreshDiscovery(config *rest.Config) (*discovery, error) {
	c := own(config)
	c.Wrap(func(rt http.RoundTripper) http.RoundTripper {
		closeConnections(rt)
		return rt
	})
	client, err := rest.HTTPClientFor(c)
	if err != nil {
		return nil, err
	}
	return newDiscovery(c, client)
}

// closeConnections finds the transport below client-go's wrappers.
func closeConnections(rt http.RoundTripper) {
	for {
		switch t := rt.(type) {
		case *http.Transport:
			t.DisableKeepAlives = true
			return
		case interface{ WrappedRoundTripper() http.RoundTripper }:
			rt = t.WrappedRoundTripper()
		default:
			return
		}
	}
}

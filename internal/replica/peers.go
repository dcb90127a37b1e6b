package replica

import (
	"net/http"
	"net/url"
)

// Peers says how the admin servers of the other replicas are reached.
type Peers struct {
	// Transport reaches them, over TLS if Encrypted is set.
	Transport http.RoundTripper
	Encrypted bool
	// Token returns what they want to be shown, empty for nothing.
	Token func() (string, error)
}

// at is a URL of the admin server with an address.
func (p Peers) at(address, path string) *url.URL {
	u := &url.URL{Scheme: "http", Host: address, Path: path}
	if p.Encrypted {
		u.Scheme = "https"
	}
	return u
}

// authorize shows the token in the header of a request.
func (p Peers) authorize(h http.Header) error {
	token, err := p.Token()
	if err == nil && token != "" {
		h.Set("Authorization", "Bearer "+token)
	}
	return err
}

// Package roundtrip finds what client-go wraps. Packages kubeauth and dynwatch call it.
package roundtrip

import "net/http"

// Transport returns the transport beneath the wrappers of rt, nil if there is none.
func Transport(rt http.RoundTripper) *http.Transport {
	for {
		switch t := rt.(type) {
		case *http.Transport:
			return t
		case interface{ WrappedRoundTripper() http.RoundTripper }:
			rt = t.WrappedRoundTripper()
		default:
			return nil
		}
	}
}

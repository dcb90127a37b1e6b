package kube

import "net/http"

// TransportOf returns the transport beneath the wrappers of rt, which are client-go's as a rule; nil if there
// is none.
func TransportOf(rt http.RoundTripper) *http.Transport {
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

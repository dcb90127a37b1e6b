package kube

import (
	"io"
	"net/http"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// maxFailure is the largest part of the answer to a failed request that is read.
const maxFailure = 64 << 10

// shortFailures bounds the answers to failed requests, which client-go reads as a whole.
type shortFailures struct{ http.RoundTripper }

// RoundTrip sends one request.
func (t shortFailures) RoundTrip(r *http.Request) (*http.Response, error) {
	response, err := t.RoundTripper.RoundTrip(r)
	if err == nil && response.StatusCode >= http.StatusBadRequest {
		response.Body = struct {
			io.Reader
			io.Closer
		}{io.LimitReader(response.Body, maxFailure), response.Body}
	}
	return response, err
}

// WrappedRoundTripper returns the transport beneath.
func (t shortFailures) WrappedRoundTripper() http.RoundTripper { return t.RoundTripper }

// MaxRetryAfter is the longest pause that informd grants an API server.
const MaxRetryAfter = 2 * time.Minute

// SuggestedDelay returns the pause that the API server asks for, at most MaxRetryAfter.
func SuggestedDelay(err error) (time.Duration, bool) {
	seconds, ok := apierrors.SuggestsClientDelay(err)
	return min(time.Duration(seconds)*time.Second, MaxRetryAfter), ok
}

// Throttled returns the pause before the next attempt of a request that was refused for load,
// at least a second, and whether err is such a refusal.
func Throttled(err error) (time.Duration, bool) {
	if err == nil || !apierrors.IsTooManyRequests(err) {
		return 0, false
	}
	wait, _ := SuggestedDelay(err)
	return max(wait, time.Second), true
}

package kube

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"net/http"
	"strconv"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// maxFailure is the largest part of the answer to a failed request that is read.
const maxFailure = 64 << 10

// retryAfter adds the delay that the server asks for to client-go's error of every failed
// request. client-go v0.37 reads the header only if the body is no Status, and only in
// seconds. API priority and fairness answers in plain text with the header, other parts of
// the API server with a Status, and proxies with a date.
type retryAfter struct{ http.RoundTripper }

// RoundTrip sends one request.
func (t retryAfter) RoundTrip(r *http.Request) (*http.Response, error) {
	response, err := t.RoundTripper.RoundTrip(r)
	if err != nil || response.StatusCode < http.StatusBadRequest {
		return response, err
	}
	body, err := io.ReadAll(io.LimitReader(response.Body, maxFailure))
	if closed := response.Body.Close(); err == nil {
		err = closed
	}
	if err != nil {
		return nil, fmt.Errorf("read the answer with status %s: %w", response.Status, err)
	}
	if seconds, ok := delayOf(response.Header, time.Now()); ok {
		response.Header.Set("Retry-After", strconv.Itoa(seconds))
		body = withDelay(body, seconds)
	}
	response.Body, response.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	return response, nil
}

// WrappedRoundTripper returns the transport beneath.
func (t retryAfter) WrappedRoundTripper() http.RoundTripper { return t.RoundTripper }

// delayOf reads Retry-After: seconds, or a date.
func delayOf(h http.Header, now time.Time) (seconds int, ok bool) {
	text := h.Get("Retry-After")
	if text == "" {
		return 0, false
	}
	if seconds, err := strconv.Atoi(text); err == nil {
		return min(max(seconds, 0), math.MaxInt32), true
	}
	at, err := http.ParseTime(text)
	if err != nil {
		return 0, false
	}
	delay := math.Ceil(at.Sub(now).Seconds())
	return int(min(max(delay, 0), math.MaxInt32)), true
}

// withDelay returns a Status with the delay in its details, and any other body as it is.
func withDelay(body []byte, seconds int) []byte {
	var status metav1.Status
	if json.Unmarshal(body, &status) != nil || status.Kind != "Status" {
		return body
	}
	if status.Details == nil {
		status.Details = &metav1.StatusDetails{}
	}
	status.Details.RetryAfterSeconds = max(status.Details.RetryAfterSeconds, int32(seconds))
	changed, err := json.Marshal(&status)
	if err != nil {
		return body
	}
	return changed
}

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

package frame_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic"

	"github.com/informd/informd/pkg/dynwatch/internal/frame"
)

// TestErrors: what the server refuses comes out as client-go's errors, at once.
func TestErrors(t *testing.T) {
	for name, test := range map[string]struct {
		code   int
		reason metav1.StatusReason
		is     func(error) bool
	}{
		"Forbidden":       {http.StatusForbidden, metav1.StatusReasonForbidden, apierrors.IsForbidden},
		"Unauthorized":    {http.StatusUnauthorized, metav1.StatusReasonUnauthorized, apierrors.IsUnauthorized},
		"NotFound":        {http.StatusNotFound, metav1.StatusReasonNotFound, apierrors.IsNotFound},
		"Gone":            {http.StatusGone, metav1.StatusReasonExpired, apierrors.IsResourceExpired},
		"TooManyRequests": {http.StatusTooManyRequests, metav1.StatusReasonTooManyRequests, apierrors.IsTooManyRequests},
		"Unavailable":     {http.StatusServiceUnavailable, metav1.StatusReasonServiceUnavailable, apierrors.IsServiceUnavailable},
	} {
		for protocol, start := range protocols() {
			t.Run(name+"/"+protocol, func(t *testing.T) {
				requests := 0
				s := start(t, func(w http.ResponseWriter, _ *http.Request) {
					requests++
					w.Header().Set("Content-Type", "application/json")
					w.Header().Set("Retry-After", "7")
					w.WriteHeader(test.code)
					status := metav1.Status{
						TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"},
						Status:   metav1.StatusFailure, Message: "because", Reason: test.reason, Code: int32(test.code),
						Details: &metav1.StatusDetails{RetryAfterSeconds: 7},
					}
					if err := json.NewEncoder(w).Encode(status); err != nil {
						t.Error(err)
					}
				})
				n := frame.NewNormaliser("v1", "Pod", frame.Options{})
				_, watchErr := s.watch(t, n)
				body, streamErr := s.client(t, n, false).Get().AbsPath("/api/v1/pods").Stream(t.Context())
				if streamErr == nil {
					body.Close()
				}
				_, getErr := dynamic.New(s.client(t, n, false)).Resource(pods).Get(t.Context(), "a", metav1.GetOptions{})
				for request, err := range map[string]error{"watch": watchErr, "stream": streamErr, "get": getErr} {
					if !test.is(err) || err.Error() != "because" {
						t.Errorf("%s: %T %v", request, err, err)
					}
					if seconds, ok := apierrors.SuggestsClientDelay(err); ok && seconds != 7 {
						t.Errorf("%s: retry after %d s", request, seconds)
					} else if !ok && test.is(err) && test.code == http.StatusTooManyRequests {
						t.Errorf("%s: Retry-After is lost", request)
					}
				}
				if requests != 3 {
					t.Errorf("%d requests for 3 calls", requests)
				}
			})
		}
	}
}

// TestPlainError: an error that is no Status, as proxies send it.
func TestPlainError(t *testing.T) {
	s := protocols()["HTTP/1.1"](t, func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, "no upstream", http.StatusBadGateway)
	})
	_, err := s.watch(t, frame.NewNormaliser("v1", "Pod", frame.Options{}))
	if status, ok := errors.AsType[*apierrors.StatusError](err); !ok || status.Status().Code != http.StatusBadGateway {
		t.Errorf("error %T %v", err, err)
	}
}

// TestContentType: a watch response that is no JSON ends with an error, and its
// connection is given back.
func TestContentType(t *testing.T) {
	s := protocols()["HTTP/1.1"](t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		fmt.Fprint(w, "<html>")
	})
	w, err := s.watch(t, frame.NewNormaliser("v1", "Pod", frame.Options{}))
	must(t, err)
	want := []string{`ERROR read watch response: the content type is "text/html", not application/json`}
	if diff := cmp.Diff(want, summaries(collect(t, w))); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
}

// TestCompressed: a response that is compressed without being asked for is refused
// with a word about why.
func TestCompressed(t *testing.T) {
	s := protocols()["HTTP/1.1"](t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Content-Encoding", "gzip")
		fmt.Fprint(w, "\x1f\x8b\x08")
	})
	_, err := s.watch(t, frame.NewNormaliser("v1", "Pod", frame.Options{}))
	if err == nil || !strings.Contains(err.Error(), "the response is compressed (gzip), and informd did not request that") {
		t.Errorf("error %v", err)
	}
}

// TestAccept: every request asks for the kind that the API server has an answer for.
func TestAccept(t *testing.T) {
	const single, list = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1", "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
	for name, test := range map[string]struct {
		base, path, query string
		metadataOnly      bool
		want              string
	}{
		"Full":           {path: "/api/v1/pods", want: "application/json"},
		"FullWatch":      {path: "/api/v1/pods", query: "true", want: "application/json"},
		"List":           {path: "/api/v1/pods", metadataOnly: true, want: list},
		"NamespacedList": {path: "/apis/apps/v1/namespaces/shop/deployments", metadataOnly: true, want: list},
		"GroupList":      {path: "/apis/apps/v1/deployments", metadataOnly: true, want: list},
		"Namespaces":     {path: "/api/v1/namespaces", metadataOnly: true, want: list},
		"Watch":          {path: "/api/v1/namespaces/shop/pods", query: "true", metadataOnly: true, want: single},
		"BehindAPrefix":  {base: "/k8s/clusters/c-1", path: "/api/v1/pods", metadataOnly: true, want: list},
	} {
		t.Run(name, func(t *testing.T) {
			var got, path string
			s := protocols()["HTTP/1.1"](t, func(w http.ResponseWriter, r *http.Request) {
				got, path = r.Header.Get("Accept"), r.URL.Path
				w.Header().Set("Content-Type", "application/json")
				fmt.Fprint(w, "{}")
			})
			s.URL += test.base
			r := s.client(t, frame.NewNormaliser("v1", "Pod", frame.Options{}), test.metadataOnly).Get().AbsPath(test.path)
			if test.query != "" {
				r = r.Param("watch", test.query)
			}
			body, err := r.Stream(t.Context())
			must(t, err)
			if _, err := io.Copy(io.Discard, body); err != nil {
				t.Error(err)
			}
			body.Close()
			if got != test.want || path != strings.TrimSuffix(test.base, "/")+test.path {
				t.Errorf("GET %s with Accept: %s, want %s", path, got, test.want)
			}
		})
	}
}

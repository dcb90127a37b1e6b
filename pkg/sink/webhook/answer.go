package webhook

import (
	"cmp"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/informd/informd/pkg/sink"
	"github.com/informd/informd/pkg/sink/internal/endpoint"
)

// usualHeaders is more than the headers of any event take whose names the API server bounds.
const usualHeaders = 4 << 10

// longHeaders reports whether the headers of an event in binary mode are so long that an
// endpoint may refuse the request for them alone. The API server does not bound every name.
func longHeaders(header http.Header) bool {
	size := 0
	for name, values := range header {
		if strings.HasPrefix(name, "Ce-") {
			for _, value := range values {
				size += len(name) + len(value)
			}
		}
	}
	return size > usualHeaders
}

// refusal makes an error of an answer, to a request with that many events, that
// is not 2xx. Of several events a permanent error, or an unknown one, only says that they
// must go one by one.
func (s *webhook) refusal(response *http.Response, answer []byte, events int) error {
	code, hint := response.StatusCode, ""
	long := longHeaders(response.Request.Header)
	permanent := code == http.StatusRequestEntityTooLarge ||
		long && (code == http.StatusRequestHeaderFieldsTooLarge || code == http.StatusBadRequest) // nginx answers 400
	if !permanent && (code == http.StatusBadRequest || code == http.StatusUnprocessableEntity) {
		permanent = events > 1 || s.trust.Refused()
		if !permanent {
			hint = "; it has accepted nothing else lately, so the event need not be at fault: check signing.keyFile, auth, headers and the endpoint"
		}
	}
	err := fmt.Errorf("post to %s: the endpoint answers %d %s%s%s", s.where(), code, http.StatusText(code),
		s.advice(response), hint)
	err = sink.WithAnswer(err, endpoint.Excerpt(answer, s.url, s.config.Headers, s.config.Auth))
	if permanent {
		return sink.Permanent(err)
	}
	if after := endpoint.RetryAfter(response.Header, time.Now()); after > 0 {
		err = sink.WithRetryAfter(err, after)
	}
	if hint != "" || unknown(code) {
		err = sink.Unknown(err)
	}
	return err
}

// unknown says whether a status may be about one event as well as about the endpoint. All
// others that are not 2xx are about the endpoint, or about informd's configuration; 5xx
// above all, which an endpoint that is down answers to everything.
func unknown(code int) bool { return code/100 == 4 && !endpoint.OfEndpoint(code) }

// advice says what to do about statuses that come from a wrong configuration.
func (s *webhook) advice(response *http.Response) string {
	switch code := response.StatusCode; {
	case code == http.StatusSwitchingProtocols:
		return "; informd uses no other protocol, set url to an HTTP endpoint"
	case code/100 == 3:
		return fmt.Sprintf(" (to %s); redirects are not followed, set url to the address of the endpoint", endpoint.RedirectHost(response))
	case code == http.StatusUnauthorized || code == http.StatusForbidden:
		return "; check headers, auth and signing.keyFile"
	case code == http.StatusNotFound || code == http.StatusMethodNotAllowed:
		return "; check url, the endpoint must accept POST requests"
	case code == http.StatusUnsupportedMediaType:
		return "; the endpoint must accept what format and compression say: " + sent(response.Request.Header)
	case code == http.StatusRequestHeaderFieldsTooLarge:
		return "; use format: cloudevents, which has no attributes in headers, or raise the endpoint's limit of headers"
	case code == http.StatusGone:
		return "; the endpoint accepts no more events: remove the sink, or make the endpoint accept them"
	}
	return ""
}

// sent names the kind of body that a request has.
func sent(header http.Header) string {
	kind := cmp.Or(header.Get("Content-Type"), "no body")
	if encoding := header.Get("Content-Encoding"); encoding != "" {
		kind += ", " + encoding
	}
	return kind
}

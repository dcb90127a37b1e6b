package webhook

import (
	"cmp"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/informd/informd/pkg/sink"
)

const (
	// maxRetryAfter bounds what an endpoint may ask for.
	maxRetryAfter = 10 * time.Minute
	// maxExcerpt is how many bytes of an answer the log has.
	maxExcerpt = 200
	// maxRefusals is how many events in a row an endpoint may refuse for good.
	maxRefusals = 10
)

// trust is how far to believe an endpoint that says an event is bad: one that
// refuses everything, for want of the right secret perhaps, must not turn the
// whole stream into dead letters. The zero value believes nothing. Its methods
// may be called concurrently.
type trust struct{ left atomic.Int64 }

// accepted notes that the endpoint has taken something.
func (t *trust) accepted() { t.left.Store(maxRefusals) }

// refused notes that the endpoint has refused one event, and says whether to
// believe it.
func (t *trust) refused() bool { return t.left.Add(-1) >= 0 }

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

// beyondPeer reports whether the client has not sent a request because its headers are longer
// than the endpoint announced over HTTP/2. net/http has no type for that error.
func beyondPeer(err error) bool {
	return strings.Contains(err.Error(), "request header list larger than peer's advertised limit")
}

// refusal makes an error of an answer, to a request with that many events, that
// is not 2xx. Of several events a permanent error, or an unknown one, only says that they
// must go one by one.
func (s *webhook) refusal(response *http.Response, answer []byte, events int) error {
	code, doubt := response.StatusCode, ""
	long := longHeaders(response.Request.Header)
	permanent := code == http.StatusRequestEntityTooLarge ||
		long && (code == http.StatusRequestHeaderFieldsTooLarge || code == http.StatusBadRequest) // nginx answers 400
	if !permanent && (code == http.StatusBadRequest || code == http.StatusUnprocessableEntity) {
		permanent = events > 1 || s.trust.refused()
		if !permanent {
			doubt = "; it has accepted nothing else lately, so the event need not be at fault: check signing.keyFile, auth, headers and the endpoint"
		}
	}
	err := fmt.Errorf("post to %s: the endpoint answers %d %s%s%s", s.where(), code, http.StatusText(code),
		s.advice(response), doubt)
	err = sink.WithAnswer(err, s.excerpt(answer))
	if permanent {
		return sink.Permanent(err)
	}
	if after := retryAfter(response.Header.Get("Retry-After"), time.Now()); after > 0 {
		err = sink.WithRetryAfter(err, after)
	}
	if doubt != "" || unknown(code) {
		err = sink.Unknown(err)
	}
	return err
}

// unknown says whether a status may be about one event as well as about the endpoint. All
// others that are not 2xx are about the endpoint, or about informd's configuration; 5xx
// above all, which an endpoint that is down answers to everything.
func unknown(code int) bool {
	switch code {
	case http.StatusUnauthorized, http.StatusForbidden, http.StatusNotFound, http.StatusMethodNotAllowed, http.StatusProxyAuthRequired,
		http.StatusRequestTimeout, http.StatusGone, http.StatusUnsupportedMediaType, http.StatusMisdirectedRequest,
		http.StatusTooEarly, http.StatusUpgradeRequired, http.StatusTooManyRequests:
		return false
	}
	return code/100 == 4
}

// advice says what to do about statuses that come from a wrong configuration.
func (s *webhook) advice(response *http.Response) string {
	switch code := response.StatusCode; {
	case code == http.StatusSwitchingProtocols:
		return "; informd uses no other protocol, set url to an HTTP endpoint"
	case code/100 == 3:
		return fmt.Sprintf(" (to %s); redirects are not followed, set url to the address of the endpoint", redirectHost(response))
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

func redirectHost(response *http.Response) string {
	location, err := response.Location()
	if err != nil {
		return "no address"
	}
	return strconv.Quote((&url.URL{Scheme: location.Scheme, Host: location.Host}).String())
}

// excerpt returns the beginning of an answer, for the log. There is none
// if the request had a secret, or what may be one: endpoints repeat what they got,
// decoded, escaped or in part, so that it could not be found in their words.
func (s *webhook) excerpt(answer []byte) string {
	plain := strings.Trim(s.url.Path, "/") == "" && s.url.RawQuery == "" && s.url.User == nil && len(s.config.Headers) == 0 && !s.config.Auth.Wanted()
	if len(answer) == 0 || !plain {
		return ""
	}
	text := string(answer)
	if len(text) > maxExcerpt {
		text = text[:maxExcerpt] + "..."
	}
	return text
}

// retryAfter reads the header of that name, seconds or a date. 0 is none.
func retryAfter(value string, now time.Time) time.Duration {
	var after time.Duration
	if seconds, err := strconv.ParseInt(strings.TrimSpace(value), 10, 64); err == nil {
		after = time.Duration(min(seconds, int64(maxRetryAfter/time.Second))) * time.Second
	} else if date, err := http.ParseTime(value); err == nil {
		after = date.Sub(now)
	}
	return max(0, min(after, maxRetryAfter))
}

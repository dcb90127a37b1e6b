package endpoint

import (
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/informd/informd/pkg/connection"
	"github.com/informd/informd/pkg/sink"
)

const (
	// MaxRetryAfter bounds what an endpoint may ask for.
	MaxRetryAfter = 10 * time.Minute
	// maxExcerpt is how many bytes of an answer the log has.
	maxExcerpt = 200
	// maxRefusals is how many events in a row an endpoint may refuse for good.
	maxRefusals = 10
)

// Trust is how far to believe an endpoint that says an event is bad: one that
// refuses everything, for want of the right secret perhaps, must not turn the
// whole stream into dead letters. The zero value believes nothing. Its methods
// may be called concurrently.
type Trust struct{ left atomic.Int64 }

// Accepted notes that the endpoint has taken something.
func (t *Trust) Accepted() { t.left.Store(maxRefusals) }

// Refused notes that the endpoint has refused one event, and says whether to
// believe it.
func (t *Trust) Refused() bool { return t.left.Add(-1) >= 0 }

// OfEndpoint reports whether a status in 4xx is about the endpoint or about informd's
// configuration, not about one event.
func OfEndpoint(code int) bool {
	switch code {
	case http.StatusUnauthorized, http.StatusForbidden, http.StatusNotFound, http.StatusMethodNotAllowed, http.StatusProxyAuthRequired,
		http.StatusRequestTimeout, http.StatusGone, http.StatusUnsupportedMediaType, http.StatusMisdirectedRequest,
		http.StatusTooEarly, http.StatusUpgradeRequired, http.StatusTooManyRequests:
		return true
	}
	return false
}

// RedirectHost is where an answer redirects to, quoted and without what may be secret.
func RedirectHost(response *http.Response) string {
	location, err := response.Location()
	if err != nil {
		return "no address"
	}
	return strconv.Quote((&url.URL{Scheme: location.Scheme, Host: location.Host}).String())
}

// Excerpt returns the beginning of an answer, for the log. There is none
// if the request had a secret, or what may be one: endpoints repeat what they got,
// decoded, escaped or in part, so that it could not be found in their words.
func Excerpt(answer []byte, to *url.URL, headers map[string]sink.Secret, auth connection.Auth) string {
	plain := strings.Trim(to.Path, "/") == "" && to.RawQuery == "" && to.User == nil && len(headers) == 0 && !auth.Wanted()
	if len(answer) == 0 || !plain {
		return ""
	}
	text := string(answer)
	if len(text) > maxExcerpt {
		text = text[:maxExcerpt] + "..."
	}
	return text
}

// RetryAfter reads the header Retry-After, seconds or a date. 0 is none.
func RetryAfter(header http.Header, now time.Time) time.Duration {
	value := header.Get("Retry-After")
	var after time.Duration
	if seconds, err := strconv.ParseInt(strings.TrimSpace(value), 10, 64); err == nil {
		after = time.Duration(min(seconds, int64(MaxRetryAfter/time.Second))) * time.Second
	} else if date, err := http.ParseTime(value); err == nil {
		after = date.Sub(now)
	}
	return max(0, min(after, MaxRetryAfter))
}

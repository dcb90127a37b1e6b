package endpoint

import (
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

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

// Subject is what a refusal is about, and with it how often informd tries again.
type Subject int

// The subjects.
const (
	// OfEndpoint: the endpoint is busy or down, or a configuration is wrong. No limit.
	OfEndpoint Subject = iota
	// OfEvents: the events can never be accepted, if the endpoint accepts others.
	OfEvents
	// OfSize: the events can never be accepted.
	OfSize
	// Unclear: a few times.
	Unclear
)

// Refusal is an answer that does not accept all events of a request.
type Refusal struct {
	What   string // the answer, for people
	About  Subject
	After  time.Duration // the pause that the endpoint asks for
	Events int           // in the request
	Answer []byte        // the words of the endpoint
}

// Accepted notes that the endpoint has accepted something.
func (e *Endpoint) Accepted() { e.trust.Store(maxRefusals) }

// CheckLogin says what to check if the endpoint has refused the credential.
func (e *Endpoint) CheckLogin() string { return "; check " + e.kind.Login }

// Refused makes the error of a refusal. Of several events a permanent error, or an unknown one,
// only says that they must go one by one.
func (e *Endpoint) Refused(r Refusal) error {
	hint := ""
	permanent := r.About == OfSize || r.About == OfEvents && (r.Events > 1 || e.trust.Add(-1) >= 0)
	if r.About == OfEvents && !permanent {
		hint = "; it has accepted nothing else lately, so the event need not be at fault: check url, " + e.kind.Login + " and the endpoint"
	}
	err := fmt.Errorf("post to %s: the endpoint %s%s", e.Where(), r.What, hint)
	err = sink.WithAnswer(err, e.Excerpt(r.Answer))
	switch {
	case permanent:
		return sink.Permanent(err)
	case r.After > 0:
		err = sink.WithRetryAfter(err, r.After)
	}
	if hint != "" || r.About == Unclear {
		err = sink.Unknown(err)
	}
	return err
}

// Status is the refusal that an answer is which is not 2xx, by its status alone. All statuses but
// some in 4xx are about the endpoint, or about informd's configuration; 5xx above all, which an
// endpoint that is down answers to everything.
func (e *Endpoint) Status(answer *Answer, events int) Refusal {
	code, advice := answer.StatusCode, ""
	r := Refusal{Events: events, Answer: answer.Text, After: retryAfter(answer.Header, time.Now())}
	switch {
	case code == http.StatusRequestEntityTooLarge:
		r.About = OfSize
	case code == http.StatusBadRequest || code == http.StatusUnprocessableEntity:
		r.About = OfEvents
	case code/100 == 4 && !aboutEndpoint(code):
		r.About = Unclear
	}
	switch {
	case code == http.StatusSwitchingProtocols:
		advice = "; informd uses no other protocol, set url to the address of the endpoint"
	case code/100 == 3:
		advice = fmt.Sprintf(" (to %s); redirects are not followed, set url to the address of the endpoint", redirectHost(answer.Response))
	case code == http.StatusUnauthorized || code == http.StatusForbidden:
		advice = e.CheckLogin()
	case code == http.StatusNotFound || code == http.StatusMethodNotAllowed:
		advice = "; " + e.kind.Address
	case code == http.StatusUnsupportedMediaType:
		sent := answer.Request.Header
		advice = fmt.Sprintf("; the endpoint must accept the type (%s) and the compression (%s) of the body; %s",
			sent.Get("Content-Type"), e.options.Compression, e.kind.Address)
	}
	r.What = fmt.Sprintf("answers %d %s%s", code, http.StatusText(code), advice)
	return r
}

// aboutEndpoint reports whether a status in 4xx is about the endpoint or about informd's
// configuration, not about one event.
func aboutEndpoint(code int) bool {
	switch code {
	case http.StatusUnauthorized, http.StatusForbidden, http.StatusNotFound, http.StatusMethodNotAllowed, http.StatusProxyAuthRequired,
		http.StatusRequestTimeout, http.StatusGone, http.StatusUnsupportedMediaType, http.StatusMisdirectedRequest,
		http.StatusTooEarly, http.StatusUpgradeRequired, http.StatusTooManyRequests:
		return true
	}
	return false
}

// redirectHost is where an answer redirects to, quoted and without what may be secret.
func redirectHost(response *http.Response) string {
	location, err := response.Location()
	if err != nil {
		return "no address"
	}
	return strconv.Quote((&url.URL{Scheme: location.Scheme, Host: location.Host}).String())
}

// Excerpt returns the beginning of an answer, for the log. There is none
// if the request had a secret, or what may be one: endpoints repeat what they got,
// decoded, escaped or in part, so that it could not be found in their words.
func (e *Endpoint) Excerpt(answer []byte) string {
	plain := strings.Trim(e.URL.Path, "/") == "" && e.URL.RawQuery == "" && e.URL.User == nil
	if !plain || len(e.options.Headers) > 0 || e.options.Auth.Wanted() {
		return ""
	}
	if len(answer) > maxExcerpt {
		return string(answer[:maxExcerpt]) + "..."
	}
	return string(answer)
}

// retryAfter reads the header Retry-After, seconds or a date. 0 is none.
func retryAfter(header http.Header, now time.Time) time.Duration {
	value := header.Get("Retry-After")
	var after time.Duration
	if seconds, err := strconv.ParseInt(strings.TrimSpace(value), 10, 64); err == nil {
		after = time.Duration(min(seconds, int64(MaxRetryAfter/time.Second))) * time.Second
	} else if date, err := http.ParseTime(value); err == nil {
		after = date.Sub(now)
	}
	return max(0, min(after, MaxRetryAfter))
}

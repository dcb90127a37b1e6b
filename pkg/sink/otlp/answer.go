package otlp

import (
	"errors"
	"fmt"
	"net/http"
	"time"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/informd/informd/pkg/sink"
	"github.com/informd/informd/pkg/sink/internal/endpoint"
)

// concern is what a refusal is about, and with it how often informd tries again.
type concern int

const (
	// ofEndpoint: the endpoint is busy or down, or a configuration is wrong. No limit.
	ofEndpoint concern = iota
	// ofEvents: the events can never be accepted, if the endpoint accepts others.
	ofEvents
	// ofSize: the events can never be accepted.
	ofSize
	// unclear: a few times.
	unclear
)

// refusal is an answer that does not accept all events of a request.
type refusal struct {
	what   string // the answer, for people
	about  concern
	after  time.Duration // the pause that the endpoint asks for
	events int           // in the request
	answer []byte        // the words of the endpoint
}

// refused makes the error of a refusal. Of several events a permanent error, or an unknown one,
// only says that they must go one by one.
func (s *exporter) refused(r refusal) error {
	hint := ""
	permanent := r.about == ofSize || r.about == ofEvents && (r.events > 1 || s.trust.Refused())
	if r.about == ofEvents && !permanent {
		hint = "; it has accepted nothing else lately, so the event need not be at fault: check url, headers, auth and the endpoint"
	}
	err := fmt.Errorf("post to %s: the endpoint %s%s", endpoint.Where(s.url), r.what, hint)
	err = sink.WithAnswer(err, s.excerpt(r.answer))
	switch {
	case permanent:
		return sink.Permanent(err)
	case r.after > 0:
		err = sink.WithRetryAfter(err, r.after)
	}
	if hint != "" || r.about == unclear {
		err = sink.Unknown(err)
	}
	return err
}

func (s *exporter) excerpt(answer []byte) string {
	return endpoint.Excerpt(answer, s.url, s.config.Headers, s.config.Auth)
}

// refusedByStatus makes an error of an answer that is not 2xx. With gRPC it is one of a proxy, or
// of a server that is none of gRPC.
func (s *exporter) refusedByStatus(response *http.Response, answer []byte, events int) error {
	code, advice := response.StatusCode, ""
	r := refusal{events: events, answer: answer, after: endpoint.RetryAfter(response.Header, time.Now()), about: unclear}
	switch {
	case code == http.StatusRequestEntityTooLarge && s.config.Protocol == HTTP:
		r.about = ofSize
	case (code == http.StatusBadRequest || code == http.StatusUnprocessableEntity) && s.config.Protocol == HTTP:
		r.about = ofEvents
	case code == http.StatusUnauthorized || code == http.StatusForbidden:
		s.credential.Refused()
		r.about, advice = ofEndpoint, "; check headers and auth"
	case code == http.StatusNotFound || code == http.StatusMethodNotAllowed:
		r.about, advice = ofEndpoint, "; check url and protocol: the endpoint must take logs at "+s.path()
	case code == http.StatusUnsupportedMediaType:
		r.about, advice = ofEndpoint, "; the endpoint must accept protocol buffers with the compression "+string(s.config.Compression)
	case code/100 == 3:
		r.about, advice = ofEndpoint, fmt.Sprintf(" (to %s); redirects are not followed, set url to the address of the endpoint", endpoint.RedirectHost(response))
	case code/100 == 1, endpoint.OfEndpoint(code),
		code == http.StatusBadGateway, code == http.StatusServiceUnavailable, code == http.StatusGatewayTimeout:
		r.about = ofEndpoint
	}
	r.what = fmt.Sprintf("answers %d %s%s", code, http.StatusText(code), advice)
	return s.refused(r)
}

func (s *exporter) path() string {
	if s.config.Protocol == GRPC {
		return exportPath
	}
	return logsPath
}

// accepted reads the message of an answer that accepts the request, as a whole or in part: an
// ExportLogsServiceResponse. It has the number of the refused events and not which they are.
// OTLP forbids to repeat such a request. informd does so nevertheless, event by event, because
// it must know the refused events; the others arrive twice with their id.
func (s *exporter) accepted(answer []byte, events int) error {
	rejected, words, err := partialSuccess(answer)
	switch {
	case err != nil:
		return s.refused(refusal{what: "answers with something else than OTLP; check url and protocol", events: events})
	case rejected <= 0:
		s.trust.Accepted()
		s.warn(words)
		return nil
	case rejected < int64(events):
		s.trust.Accepted()
	}
	return s.refused(refusal{
		what: fmt.Sprintf("rejects %d of %d records", rejected, events), about: ofEvents, events: events, answer: []byte(words),
	})
}

// warn logs what the endpoint says beside accepting everything, now and then: it may say it each time.
func (s *exporter) warn(words string) {
	if words == "" {
		return
	}
	s.warnings.Do(func() {
		s.logger.Warn("the endpoint has accepted the records with a warning, they stay delivered", "answer", s.excerpt([]byte(words)))
	})
}

// partialSuccess reads an ExportLogsServiceResponse. Its generated type would link all of gRPC.
func partialSuccess(response []byte) (rejected int64, words string, err error) {
	_, partial, err := field(response, 1)
	if err != nil {
		return 0, "", err
	}
	number, _, err := field(partial, 1)
	if err != nil {
		return 0, "", err
	}
	_, text, err := field(partial, 2)
	return int64(number), string(text), err
}

// field returns the value of a field of a message, a number or bytes: zero if there is none.
func field(message []byte, wanted protowire.Number) (number uint64, inner []byte, err error) {
	for len(message) > 0 {
		name, kind, size := protowire.ConsumeField(message)
		if size < 0 {
			return 0, nil, errors.New("read answer: not protocol buffers")
		}
		if value := message[protowire.SizeTag(name):]; name == wanted && kind == protowire.VarintType {
			number, _ = protowire.ConsumeVarint(value)
		} else if name == wanted && kind == protowire.BytesType {
			inner, _ = protowire.ConsumeBytes(value)
		}
		message = message[size:]
	}
	return number, inner, nil
}

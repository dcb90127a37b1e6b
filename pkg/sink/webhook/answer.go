package webhook

import (
	"net/http"
	"strings"

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

// refusal makes an error of an answer, to a request with that many events, that is not 2xx.
func (s *webhook) refusal(answer *endpoint.Answer, events int) error {
	code, r := answer.StatusCode, s.Status(answer, events)
	if longHeaders(answer.Request.Header) && (code == http.StatusRequestHeaderFieldsTooLarge || code == http.StatusBadRequest) { // nginx answers 400
		r.About = endpoint.OfSize
	}
	switch code {
	case http.StatusRequestHeaderFieldsTooLarge:
		r.What += "; use format: cloudevents, which has no attributes in headers, or raise the endpoint's limit of headers"
	case http.StatusGone:
		r.What += "; the endpoint accepts no more events: remove the sink, or make the endpoint accept them"
	}
	return s.Refused(r)
}

package otlp

import (
	"encoding/json"
	"errors"
	"fmt"
	"mime"
	"net/http"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/informd/informd/pkg/sink/internal/endpoint"
)

var errForeign = errors.New("read answer: it is not one of OTLP")

// refusedByStatus makes an error of an answer that is not 2xx. With gRPC it is one of a proxy, or
// of a server that is none of gRPC, and not about the events. Of 5xx, OTLP permits to repeat three.
func (s *exporter) refusedByStatus(answer *endpoint.Answer, events int) error {
	r := s.Status(answer, events)
	code := answer.StatusCode
	again := code == http.StatusBadGateway || code == http.StatusServiceUnavailable || code == http.StatusGatewayTimeout
	if code/100 == 5 && !again || s.config.Protocol == GRPC && r.About != endpoint.OfEndpoint {
		r.About = endpoint.Unclear
	}
	return s.Refused(r)
}

// accepted reads the message of an answer that accepts the request, as a whole or in part: an
// ExportLogsServiceResponse. It has the number of the refused events and not which they are.
// OTLP forbids to repeat such a request. informd does so nevertheless, event by event, because
// it must know the refused events; the others arrive twice with their id. A message of another kind
// refuses nothing: no exporter repeats the request then, and it would be answered so without end.
func (s *exporter) accepted(answer *endpoint.Answer, message []byte, events int) error {
	rejected, words, err := partialSuccess(message, answer.Header.Get("Content-Type"))
	if rejected < int64(events) {
		s.Accepted()
	}
	switch {
	case err != nil:
		s.warnings.Do(func() {
			s.logger.Warn("the endpoint accepts the records with an answer that is not one of OTLP, they stay delivered; "+
				"check that url and protocol are those of an endpoint of OTLP", "status", answer.StatusCode, "answer", s.Excerpt(message))
		})
	case rejected > 0:
		return s.Refused(endpoint.Refusal{
			What: fmt.Sprintf("rejects %d of %d records", rejected, events), About: endpoint.OfEvents, Events: events, Answer: []byte(words),
		})
	case words != "": // now and then: it may say it each time
		s.warnings.Do(func() {
			s.logger.Warn("the endpoint has accepted the records with a warning, they stay delivered", "answer", s.Excerpt([]byte(words)))
		})
	}
	return nil
}

// partialSuccess reads an ExportLogsServiceResponse, whose generated type would link all of gRPC. Some
// endpoints answer in JSON whatever they are sent.
func partialSuccess(message []byte, contentType string) (rejected int64, words string, err error) {
	kind, _, _ := mime.ParseMediaType(contentType)
	switch {
	case len(message) == 0:
		return 0, "", nil
	case kind == "application/json":
		var said struct {
			PartialSuccess struct {
				RejectedLogRecords json.Number // OTLP has it as a text
				ErrorMessage       string
			}
		}
		if json.Unmarshal(message, &said) != nil {
			return 0, "", errForeign
		}
		rejected, _ := said.PartialSuccess.RejectedLogRecords.Int64() // 0 if it is absent
		return rejected, said.PartialSuccess.ErrorMessage, nil
	case kind != "application/x-protobuf" && kind != "application/grpc" && kind != "application/grpc+proto":
		return 0, "", errForeign
	}
	_, partial, err0 := field(message, 1)
	number, _, err1 := field(partial, 1)
	_, text, err2 := field(partial, 2)
	return int64(number), string(text), errors.Join(err0, err1, err2)
}

// field returns the value of a field of a message, a number or bytes: zero if there is none.
func field(message []byte, wanted protowire.Number) (number uint64, inner []byte, err error) {
	for len(message) > 0 {
		name, kind, size := protowire.ConsumeField(message)
		if size < 0 {
			return 0, nil, errForeign
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

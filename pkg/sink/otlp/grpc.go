package otlp

import (
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"google.golang.org/genproto/googleapis/rpc/code"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/informd/informd/pkg/sink/internal/compress"
	"github.com/informd/informd/pkg/sink/internal/endpoint"
)

// prefixSize is the size of what gRPC puts before a message: whether it is compressed, and its
// length.
const prefixSize = 5

// frame puts the prefix of gRPC before a message.
func frame(message []byte, compressed bool) []byte {
	framed := make([]byte, prefixSize, prefixSize+len(message))
	if compressed {
		framed[0] = 1
	}
	binary.BigEndian.PutUint32(framed[1:], uint32(len(message)))
	return append(framed, message...)
}

// unframe returns the message of an answer. grpc-go compresses answers as the request was.
func unframe(framed []byte, header http.Header) ([]byte, bool) {
	if len(framed) < prefixSize || uint32(len(framed)-prefixSize) != binary.BigEndian.Uint32(framed[1:]) {
		return nil, false
	}
	if framed[0] == 0 {
		return framed[prefixSize:], true
	}
	message, err := compress.Method(header.Get("Grpc-Encoding")).Decode(framed[prefixSize:], endpoint.MaxAnswer)
	return message, err == nil
}

// answeredByGRPC judges an answer with the status 200, which every answer of a gRPC server has.
func (s *exporter) answeredByGRPC(response *http.Response, answer []byte, events int) error {
	// The trailers are there once the body has been read. An answer without a body has them
	// among its headers.
	trailer := response.Trailer
	if trailer.Get("Grpc-Status") == "" {
		trailer = response.Header
	}
	number, err := strconv.ParseInt(trailer.Get("Grpc-Status"), 10, 32)
	if err != nil {
		return s.refused(refusal{what: "does not answer as a gRPC server; check url and protocol", events: events})
	}
	answered := code.Code(number)
	if answered == code.Code_OK {
		message, ok := unframe(answer, response.Header)
		if !ok {
			return s.refused(refusal{what: "answers with something else than one message of gRPC; check url", events: events})
		}
		return s.accepted(message, events)
	}
	words, err := url.PathUnescape(trailer.Get("Grpc-Message"))
	if err != nil {
		words = trailer.Get("Grpc-Message")
	}
	after, asked := retryDelay(trailer)
	r := refusal{events: events, after: after, answer: []byte(words), about: concernOf(answered, asked)}
	r.what = fmt.Sprintf("answers %s (%d)%s", answered, answered, s.adviceOn(answered))
	return s.refused(r)
}

// concernOf says what a status is about. The first line has the codes that OTLP calls retryable.
func concernOf(answered code.Code, asked bool) concern {
	switch answered {
	case code.Code_CANCELLED, code.Code_DEADLINE_EXCEEDED, code.Code_ABORTED, code.Code_OUT_OF_RANGE, code.Code_UNAVAILABLE, code.Code_DATA_LOSS,
		code.Code_UNAUTHENTICATED, code.Code_PERMISSION_DENIED, code.Code_UNIMPLEMENTED: // the configuration
		return ofEndpoint
	case code.Code_INVALID_ARGUMENT:
		return ofEvents
	case code.Code_RESOURCE_EXHAUSTED:
		if asked {
			return ofEndpoint
		}
		// A message that is too large, or a quota.
	default:
	}
	return unclear
}

// adviceOn says what to do about a status that comes from a wrong configuration.
func (s *exporter) adviceOn(answered code.Code) string {
	switch answered {
	case code.Code_UNAUTHENTICATED, code.Code_PERMISSION_DENIED:
		s.credential.Refused()
		return "; check headers and auth"
	case code.Code_UNIMPLEMENTED:
		return "; the endpoint must take logs, with the compression " + string(s.config.Compression)
	case code.Code_RESOURCE_EXHAUSTED:
		return "; if the request is too large for it, raise the endpoint's limit or lower maxRequestBytes"
	default:
		return ""
	}
}

// retryDelay reads RetryInfo, which a server adds to a refusal to ask for a pause. The pause may be 0.
func retryDelay(trailer http.Header) (after time.Duration, asked bool) {
	// Base64 may be padded or not.
	raw, err := base64.RawStdEncoding.DecodeString(strings.TrimRight(trailer.Get("Grpc-Status-Details-Bin"), "="))
	var details status.Status
	if err != nil || proto.Unmarshal(raw, &details) != nil {
		return 0, false
	}
	for _, detail := range details.GetDetails() {
		var info errdetails.RetryInfo
		if detail.MessageIs(&info) && detail.UnmarshalTo(&info) == nil {
			return max(0, min(info.GetRetryDelay().AsDuration(), endpoint.MaxRetryAfter)), true
		}
	}
	return 0, false
}

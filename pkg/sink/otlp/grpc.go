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
	prefix := []byte{0}
	if compressed {
		prefix[0] = 1
	}
	return append(binary.BigEndian.AppendUint32(prefix, uint32(len(message))), message...)
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
func (s *exporter) answeredByGRPC(answer *endpoint.Answer, events int) error {
	// The trailers are there once the body has been read. An answer without a body has them
	// among its headers.
	trailer := answer.Trailer
	if trailer.Get("Grpc-Status") == "" {
		trailer = answer.Header
	}
	number, err := strconv.ParseInt(trailer.Get("Grpc-Status"), 10, 32)
	if err != nil {
		return s.Refused(endpoint.Refusal{What: "does not answer as a gRPC server; " + s.config.kind().Address})
	}
	answered := code.Code(number)
	if answered == code.Code_OK {
		message, ok := unframe(answer.Text, answer.Header)
		if !ok {
			return s.Refused(endpoint.Refusal{What: "answers with something else than one message of gRPC; " + s.config.kind().Address})
		}
		return s.accepted(answer, message, events)
	}
	words, _ := url.PathUnescape(trailer.Get("Grpc-Message")) // none, if it is not escaped as it must be
	after, asked := retryDelay(trailer)
	r := s.judge(answered, asked)
	r.What = fmt.Sprintf("answers %s (%d)%s", answered, answered, r.What)
	r.After, r.Events, r.Answer = after, events, []byte(words)
	return s.Refused(r)
}

// judge says what a status is about, and in What what to do. The first line has the codes that OTLP
// calls retryable; a server that asks for a pause, too, is busy.
func (s *exporter) judge(answered code.Code, asked bool) endpoint.Refusal {
	switch answered {
	case code.Code_CANCELLED, code.Code_DEADLINE_EXCEEDED, code.Code_ABORTED, code.Code_OUT_OF_RANGE, code.Code_UNAVAILABLE, code.Code_DATA_LOSS:
		return endpoint.Refusal{}
	case code.Code_UNAUTHENTICATED, code.Code_PERMISSION_DENIED:
		return endpoint.Refusal{What: s.CheckLogin()}
	case code.Code_UNIMPLEMENTED:
		return endpoint.Refusal{What: "; the endpoint must take logs, with the compression " + string(s.config.Compression)}
	case code.Code_INVALID_ARGUMENT:
		return endpoint.Refusal{About: endpoint.OfEvents}
	case code.Code_RESOURCE_EXHAUSTED:
		if asked {
			return endpoint.Refusal{}
		}
		return endpoint.Refusal{
			About: endpoint.Unclear, What: "; if the request is too large for it, raise the endpoint's limit or lower maxRequestBytes",
		}
	default:
		return endpoint.Refusal{About: endpoint.Unclear}
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

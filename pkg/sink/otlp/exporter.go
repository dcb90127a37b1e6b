package otlp

import (
	"context"
	"log/slog"
	"net/http"

	"golang.org/x/time/rate"

	"github.com/informd/informd/pkg/event"
	"github.com/informd/informd/pkg/sink"
	"github.com/informd/informd/pkg/sink/internal/endpoint"
)

// exporter is an open endpoint. Write may be called concurrently.
type exporter struct {
	*endpoint.Endpoint

	config   *Config
	logger   *slog.Logger
	warnings rate.Sometimes // about the endpoint, in the log
}

// Write implements [sink.Sink]: request after request, each with as many events as
// [Config.MaxRequestBytes] permits.
func (s *exporter) Write(ctx context.Context, batch []event.Event) (int, error) {
	return endpoint.Write(ctx, batch, func(events []event.Event) (int, error) {
		message, n, err := s.message(events)
		if err != nil {
			return 0, err
		}
		return n, s.export(ctx, message, n)
	})
}

// message encodes the first n of the events, as many as a request may have, at least one. Its
// bytes are an ExportLogsServiceRequest, whose only field is that of LogsData.
func (s *exporter) message(events []event.Event) (message []byte, n int, err error) {
	for n = len(events); ; n = (n + 1) / 2 {
		message, err = encode(events[:n], s.config.Shape)
		if n <= 1 || len(message) <= int(s.config.MaxRequestBytes) {
			return message, n, sink.Permanent(err) // texts are UTF-8: an error is one of informd itself
		}
	}
}

// export sends one request with that many events and judges the answer.
func (s *exporter) export(ctx context.Context, message []byte, events int) error {
	request, err := s.request(message)
	if err != nil {
		return err
	}
	answer, err := s.Post(ctx, request, s.config.Timeout)
	switch {
	case err != nil:
		return err
	case answer.StatusCode/100 != 2:
		return s.refusedByStatus(answer, events)
	case answer.Cut != nil: // a part of the answer could look like an acceptance
		return answer.Cut
	case s.config.Protocol == GRPC:
		return s.answeredByGRPC(answer, events)
	}
	return s.accepted(answer, answer.Text, events)
}

// path is where the endpoint takes logs, below the path of url.
func (s *exporter) path() string {
	if s.config.Protocol == GRPC {
		return exportPath
	}
	return logsPath
}

// request makes the request with a message.
func (s *exporter) request(message []byte) (*http.Request, error) {
	header, encoding := http.Header{"Content-Type": {"application/x-protobuf"}}, "Content-Encoding"
	if s.config.Protocol == GRPC {
		header, encoding = http.Header{"Content-Type": {"application/grpc"}, "Te": {"trailers"}}, "Grpc-Encoding"
	}
	body, err := s.Compress(message, header, encoding)
	if err != nil {
		return nil, err
	}
	if s.config.Protocol == GRPC {
		body = frame(body, header.Get(encoding) != "")
	}
	return s.Request(s.URL.JoinPath(s.path()), header, body)
}

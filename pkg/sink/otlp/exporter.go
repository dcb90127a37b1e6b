package otlp

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/url"

	"golang.org/x/time/rate"
	"google.golang.org/protobuf/proto"

	"github.com/informd/informd/pkg/event"
	"github.com/informd/informd/pkg/sink"
	"github.com/informd/informd/pkg/sink/internal/compress"
	"github.com/informd/informd/pkg/sink/internal/endpoint"
)

// exporter is an open endpoint. Write may be called concurrently.
type exporter struct {
	config     *Config
	url        *url.URL
	target     string // the address of the requests
	agent      string
	logger     *slog.Logger
	encoder    *compress.Encoder
	credential *endpoint.Credential
	client     *endpoint.Client
	trust      endpoint.Trust
	warnings   rate.Sometimes // of the endpoint, in the log
}

// Write implements [sink.Sink]: request after request, each with as many events as
// [Config.MaxRequestBytes] permits.
func (s *exporter) Write(ctx context.Context, batch []event.Event) (int, error) {
	if len(batch) == 0 {
		return 0, nil
	}
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	done, single := 0, 0 // batch[:single] goes one by one
	for done < len(batch) {
		end := len(batch)
		if done < single {
			end = done + 1
		}
		message, n, err := s.message(batch[done:end])
		if err != nil {
			return done, err
		}
		err = s.export(ctx, message, n)
		if (sink.IsPermanent(err) || sink.IsUnknown(err)) && n > 1 {
			single = done + n // one of them is at fault; find out which
			continue
		}
		if err != nil {
			return done, err
		}
		done += n
	}
	return done, nil
}

// Close implements [sink.Sink]. There is nothing to wait for.
func (s *exporter) Close(context.Context) error {
	s.client.Close()
	return nil
}

// message encodes the first n of the events, as many as a request may have, at least one. Its
// bytes are an ExportLogsServiceRequest, whose only field is that of LogsData.
func (s *exporter) message(events []event.Event) (message []byte, n int, err error) {
	for n = len(events); ; n = (n + 1) / 2 {
		data := newData(events[:n], s.config.Shape)
		if size := proto.Size(data); n > 1 && size > int(s.config.MaxRequestBytes) {
			continue
		}
		message, err = proto.Marshal(data)
		return message, n, sink.Permanent(err) // texts are UTF-8: an error is one of informd itself
	}
}

// export sends one request with that many events and judges the answer.
func (s *exporter) export(ctx context.Context, message []byte, events int) error {
	attempt, cancel := context.WithTimeout(ctx, s.config.Timeout)
	defer cancel()
	request, err := s.request(attempt, message)
	if err != nil {
		return err
	}
	response, err := s.client.Send(request)
	if err != nil {
		return s.client.Explain(ctx, attempt, err)
	}
	defer response.Body.Close()
	if response.StatusCode == http.StatusSwitchingProtocols { // whose body is the connection
		return s.refusedByStatus(response, nil, events)
	}
	answer, err := endpoint.ReadAnswer(response.Body)
	switch {
	case response.StatusCode/100 != 2:
		return s.refusedByStatus(response, answer, events)
	case err != nil: // a part of the answer could look like an acceptance
		return s.client.Explain(ctx, attempt, err)
	case s.config.Protocol == GRPC:
		return s.answeredByGRPC(response, answer, events)
	}
	return s.accepted(answer, events)
}

// request makes the request. Its body is a copy of what the events have: the transport may still
// read it when Write has returned.
func (s *exporter) request(ctx context.Context, message []byte) (*http.Request, error) {
	authorization, err := s.credential.Header()
	if err != nil {
		return nil, err
	}
	body, err := s.encoder.Encode(message)
	if err != nil {
		return nil, err
	}
	header := http.Header{"Content-Type": {"application/x-protobuf"}}
	compressed, encoding := s.config.Compression.Suffix() != "", "Content-Encoding"
	if s.config.Protocol == GRPC {
		body, encoding = frame(body, compressed), "Grpc-Encoding"
		header = http.Header{"Content-Type": {"application/grpc"}, "Te": {"trailers"}}
	}
	if compressed {
		header.Set(encoding, string(s.config.Compression))
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, s.target, bytes.NewReader(body))
	if err != nil {
		return nil, errors.New("make request: url is not an address") // err would show it
	}
	request.Header = header
	for name, value := range s.config.Headers {
		header.Set(name, value.Reveal())
	}
	if authorization != "" {
		header.Set("Authorization", authorization)
	}
	if header.Get("User-Agent") == "" {
		header.Set("User-Agent", s.agent)
	}
	return request, nil
}

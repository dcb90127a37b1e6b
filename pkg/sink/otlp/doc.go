// Package otlp is the sink that sends events as log records to an endpoint of OpenTelemetry,
// such as a Collector: OTLP over HTTP or gRPC. Package deliver calls it; it does not route, wait
// or retry, it only reports the result of each request. docs/sinks/otlp.md has the form of the records.
//
// # Requests
//
// A request has the events of one Write, up to [Config.MaxRequestBytes] before compression, in
// their order: consecutive events of one namespace share a resource. gRPC needs one method
// without streams, which is HTTP/2 with a prefix of five bytes and trailers: the sink speaks it
// over net/http, with the same connections, timeouts and credentials as over HTTP. The module
// google.golang.org/grpc would add 2.7 MiB to the program.
//
// # Answers
//
// Package endpoint judges answers over HTTP. Beside that:
//
//   - Over HTTP, 2xx accepts the request. If the message is none of OTLP, as that of a proxy, the
//     log has a warning: other exporters do not repeat such a request either.
//   - A request that is accepted in part has the number of the refused records, but does not
//     say which they are. The sink sends these events again, one by one: an accepted one
//     arrives twice with the same id, a refused one is judged as after 400. So is INVALID_ARGUMENT.
//   - What OTLP does not call retryable, and no configuration causes, is unknown, because OTLP forbids to
//     repeat the request: the event becomes a dead letter after a few tries.
package otlp

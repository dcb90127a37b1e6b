// Package otlp is the sink that sends events as log records to an endpoint of OpenTelemetry,
// such as a Collector: OTLP over HTTP or gRPC. Package deliver calls it; it does not route, wait
// or retry, it only reports the result of each request.
//
// # Requests
//
// A request has the events of one Write, up to [Config.MaxRequestBytes] before compression, in
// their order: consecutive events of one namespace share a resource. gRPC needs one method
// without streams, which is HTTP/2 with a prefix of five bytes and trailers: the sink speaks it
// over net/http, with the same connections, timeouts and credentials as over HTTP. The module
// google.golang.org/grpc would add 2.7 MiB to the program.
//
// # Records
//
// With [ShapeEvent], the body of a record is the event's data as a map, the attributes are those of
// the semantic conventions where they name something (k8s.cluster.name, k8s.namespace.name,
// k8s.pod.name), those of the Collector's receivers of Kubernetes (k8s.object.uid,
// k8s.resource.name), and "informd." with the name of the CloudEvents attribute for the rest. A
// gap, and the state of a target that is not live, have the severity WARN.
//
// With [ShapeObjects], a record is the one that the k8sobjects receiver makes of the same event of
// a watch: {"type": "MODIFIED", "object": {...}}. Control events keep ShapeEvent.
//
// A body has at most 30 nested objects and arrays, because parsers of protocol buffers refuse a
// whole request for a deep one: below, there is the JSON text.
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
//   - What OTLP calls retryable (502, 503 and 504 of 5xx; CANCELLED, DEADLINE_EXCEEDED, ABORTED,
//     OUT_OF_RANGE, UNAVAILABLE, DATA_LOSS, and RESOURCE_EXHAUSTED with a RetryInfo) is retried
//     without a limit. So is what a configuration can cause: UNAUTHENTICATED, PERMISSION_DENIED and
//     UNIMPLEMENTED.
//   - Every other answer is unknown, because OTLP forbids to repeat the request: the event becomes a
//     dead letter after a few tries.
package otlp

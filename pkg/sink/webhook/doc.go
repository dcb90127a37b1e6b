// Package webhook is the sink that posts events to an HTTP endpoint. Package
// deliver calls it; it does not route, wait or retry, it only reports the result
// of each request. docs/sinks/webhook.md has the form of the requests.
//
// # Requests
//
// A status of 2xx means that the endpoint has accepted the events, whatever its body
// says. The sink follows no redirects and keeps no cookies.
//
// Requests follow Standard Webhooks 1.0.0: webhook-id is the event's id, the same for
// every retry, so that the endpoint can drop duplicates. An id with characters other
// than letters, digits, ":", "_" and "-", as in control events, is replaced by "h-" and
// a hash, as webhook-id must not contain a dot. That of several events is "b-" and a hash.
// Hashes are over the ids and the sources: control events of two clusters can have the
// same id. The signed body is the one that is sent, after compression: it can be verified
// before it is unpacked. informd reads the files of keys and credentials for every write.
//
// # Where it goes
//
// With blockPrivateAddresses the sink checks the address of each connection,
// after it has resolved the name, so that a name cannot change in between.
// A proxy would resolve the name itself: a proxy in the environment is an error
// then. All these errors are retried: the address of the name may change.
//
// # Answers
//
// Package endpoint judges answers. Also permanent are 431 and 400 if the event has more than 4 KiB of
// headers (formats binary and raw), and headers that are longer than an HTTP/2 endpoint announces.
package webhook

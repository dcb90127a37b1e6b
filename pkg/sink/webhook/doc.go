// Package webhook is the sink that posts events to an HTTP endpoint. Package
// deliver calls it; it does not route, wait or retry, it only reports the result
// of each request.
//
// # Requests
//
// With batch 1, the default, every request is one CloudEvents 1.0 event in
// structured mode (application/cloudevents+json); with more, every request is a
// JSON array of up to that many (application/cloudevents-batch+json). The format
// binary is CloudEvents binary mode: the attributes are ce- headers, the body is the
// data. The format raw has the same headers and [event.Event.Raw] as the body, so
// that ce-op distinguishes a deletion from a state; there is no body, and no content-type,
// where there is no object. With a compression every body is compressed, and
// content-encoding names it. A status of 2xx means that the endpoint has accepted the
// events, whatever its body says. The sink follows no redirects and keeps no cookies.
//
// Requests follow Standard Webhooks 1.0.0: webhook-id is the event's id (or a
// hash, see below), the same for every retry, so that the endpoint can drop
// duplicates; webhook-timestamp is the time of the attempt; and with
// signing.keyFile webhook-signature is "v1,<base64>", the HMAC-SHA256 of
// "<id>.<timestamp>.<body>", one for each key in the file. The body is the one that is
// sent, after compression: it can be verified before it is unpacked. To rotate, add
// the new key as a line, and remove the old one when the endpoint has the
// new one; informd reads the file for every write.
//
// An id with characters other than letters, digits, ":", "_" and "-", as in control
// events, is replaced by "h-" and a hash in webhook-id, as that must not
// contain a dot. The webhook-id of several events is "b-" and a hash. Hashes are
// over the ids and the sources: control events of two clusters can have the same
// id.
//
// # Credentials
//
// With auth every request has an Authorization header. Informd reads the file of the token
// or password again after a second, and after a 401. A
// file that cannot be read is retried.
//
// # Where it goes
//
// With blockPrivateAddresses no connection is made to an address that is not on the
// public Internet: loopback, private, link-local, unique-local, multicast, shared and
// reserved ones, metadata services of clouds, and whatever has one of these inside
// (IPv4-mapped, NAT64, 6to4). The sink checks the address of each connection,
// after it has resolved the name, so that a name cannot change in between.
// A proxy would resolve the name itself: a proxy in the environment is an error
// then. All these errors are retried: the address of the name may change.
//
// # Answers
//
// Package endpoint judges answers. Also permanent are 431 and 400 if the event has more than 4 KiB of
// headers (formats binary and raw), and headers that are longer than an HTTP/2 endpoint announces.
package webhook

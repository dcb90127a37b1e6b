// Package webhook is the sink that posts events to an HTTP endpoint. Package
// deliver calls it; it does not route, wait or repeat, it only says what became
// of each request.
//
// # Requests
//
// With batch 1, the default, every request is one CloudEvents 1.0 event in
// structured mode (application/cloudevents+json); with more, every request is a
// JSON array of up to that many (application/cloudevents-batch+json). The format
// binary is CloudEvents binary mode: the attributes are ce- headers, the body is the
// data. The format raw has the same headers and [event.Event.Raw] as the body, so
// that ce-op tells a deletion from a state; there is no body, and no content-type,
// where there is no object. With a compression every body is compressed, and
// content-encoding says how. A status of 2xx means that the endpoint has taken them, whatever its body says. Redirects
// are not followed and cookies not kept.
//
// Requests follow Standard Webhooks 1.0.0: webhook-id is the event's id (or a
// hash, see below), the same for every repetition, so that the endpoint can drop
// what it has seen; webhook-timestamp is the time of the attempt; and with a
// secretFile webhook-signature is "v1,<base64>", the HMAC-SHA256 of
// "<id>.<timestamp>.<body>", one for each secret in the file. The body is what is
// sent, after compression: it can be verified before it is unpacked. Rotate by adding
// the new secret as a line, and removing the old one when the endpoint knows the
// new one; the file is read for every write.
//
// An id with characters other than letters, digits, ":", "_" and "-", as control
// records have, is replaced by "h-" and a hash in webhook-id, as that must not
// contain a dot. The webhook-id of several events is "b-" and a hash. Hashes are
// over the ids and the sources: control records of two clusters can have the same
// id.
//
// # Credentials
//
// With auth every request has an Authorization header, whose token or password is
// read from its file again when that was longer ago than a second, and after a 401. A
// file that cannot be read is worth another try.
//
// # Where it goes
//
// With blockPrivateAddresses no connection is made to an address that is not on the
// public Internet: loopback, private, link-local, unique-local, multicast, shared and
// reserved ones, metadata services of clouds, and whatever has one of these inside
// (IPv4-mapped, NAT64, 6to4). The address is looked at when the connection is made,
// after the name was looked up, so that a name cannot change its meaning in between.
// A proxy would look up the name itself; that the environment has one is an error
// then. All this is worth another try: the name may come to mean something else.
//
// # Answers
//
//   - 413 is about the event: it can never be delivered. So are 431 and 400 if the event has
//     more than 4 KiB of headers (formats binary and raw), and headers that are longer than an
//     HTTP/2 endpoint announces.
//   - 400 and 422 are about the event if the endpoint takes others: it must have
//     accepted something since Open, and must not have refused more than ten
//     events in a row since it last did. Otherwise they may be about every event,
//     as with a wrong secret: the error is unknown, see [sink.Unknown].
//   - So is every other 4xx that is not named below.
//   - Of a batch that is refused with one of these, the events are posted one by
//     one, to find which.
//   - Everything else is worth another try for as long as it takes. 408, 425, 429 and 5xx pass by
//     themselves; a Retry-After header is heeded up to ten minutes. 401, 403,
//     404, 405, 407, 410, 415, 421 and 426, and redirects, are mistakes in the configuration of
//     either side: they heal without a loss when somebody mends them, where
//     giving up would turn every event into a dead letter.
//   - 101 is an error that is retried, and its connection is closed: informd asks for no
//     other protocol.
//   - The timeout is for one attempt with all that belongs to it; no answer is
//     worth another try as well. A connection over which nothing arrives for
//     twice as long, not even the answer to a ping, is given up for a new one.
//
// The first 200 bytes of an answer go to the log, and to the log only: they are no part
// of an error, of /status or of a dead letter. They go there only if the request
// holds nothing that may be secret: no path, query or user in url, no headers and no auth.
package webhook

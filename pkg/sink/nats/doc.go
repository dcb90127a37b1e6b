// Package nats is the sink that publishes events to a NATS server, into a
// JetStream stream or as plain messages.
//
// Every event is one message, whose subject is [event.Event.NATSSubject]. By
// default it is in CloudEvents binary mode: the attributes are headers
// ([event.Event.AppendHeaders]), the data is the body. The format cloudevents is
// structured mode: the body is the whole event, the content-type says so, and of
// the headers ce-id, ce-resourceversion and ce-time are there. The format raw has the
// headers of binary mode and [event.Event.Raw] as the body. Package deliver calls
// the sink; it does not route, retry or keep a cursor, and it is not the journal,
// which informd keeps in a stream of its own.
//
// # With JetStream
//
// An event counts as delivered when the stream has acknowledged it. The events
// of one Write are pipelined, but of one object only one is on its way at a
// time, and nothing is sent behind a failure: so no later revision of an object
// overtakes an earlier one.
//
// No id is stored twice, however long an outage lasts. Within the stream's
// duplicate window the server sees to that (Nats-Msg-Id is the event's id).
// Beyond it the sink does: as long as an event may have been sent before without
// an answer (the first ones after Open, and those after a failed Write) it reads
// the last message of the event's subject first, counts the event as delivered
// if that message is the event or a later one of the object, and otherwise sends
// it on the condition that the subject has not changed since. This looks at the
// subject's last message only: where consumers or limits remove it from the
// stream, the duplicate window is all there is.
//
// The stream is created if it does not exist: file storage, all subjects below
// the prefix, and of every object the last historyPerObject events. What it takes
// on disk is thus proportional to the objects, those that are gone included, and
// a consumer that is further behind misses states in between, but never the last
// one, which may be the deletion. Where names never come again, as of Pods, maxAge
// lets go of them; it also lets go of the last state of what has not changed for
// that long. At maxBytes, or when the server's disk is full, nothing is removed to
// make room: the stream refuses, and the sink repeats until there is some. Raise
// the stream's limits, or purge subjects.
//
// A stream that exists is the user's and never changed, not by these keys either;
// settings that would lose or hide events are an error that names them.
//
// # Without JetStream
//
// Core NATS knows no acknowledgement: Write returns when the server has read the
// messages. It hands them to whoever subscribes at that moment; nobody else will
// ever see them. Promises about what consumers receive end at the server.
//
// # Servers
//
// Beside those in url the client uses the servers that these tell of, but only if
// every connection is encrypted or allowPlaintext is set: otherwise a password or
// token could go to an address that nobody has looked at. List all servers of the
// cluster in url then.
//
// # Permissions
//
// The least a user needs to have: publish on "<prefix>.<cluster>.>" and
// subscribe on "_INBOX.>"; with JetStream also publish on
// "$JS.API.STREAM.INFO.<stream>", "$JS.API.STREAM.MSG.GET.<stream>",
// "$JS.API.DIRECT.GET.<stream>.>" and, if the stream is to be created,
// "$JS.API.STREAM.CREATE.<stream>".
package nats

// Package nats is the sink that publishes events to a NATS server, into a
// JetStream stream or as plain messages.
//
// Every event is one message, whose subject is [event.Event.NATSSubject]. By
// default it is in CloudEvents binary mode: the attributes are headers
// ([event.Event.AppendHeaders]), the data is the body. The format cloudevents is
// structured mode: the body is the whole event, the content-type says so, and of
// the headers ce-id, ce-resourceversion, ce-time and ce-replay are there. The format raw has the
// headers of binary mode and [event.Event.Raw] as the body. Package deliver calls
// the sink; the sink does not route, retry or keep a cursor, and it is not the journal,
// which has a separate stream.
//
// # With JetStream
//
// An event counts as delivered when the stream has acknowledged it. The events
// of one Write are pipelined, but only one event of each object is in flight at a
// time, and nothing is sent after a failure: so no later revision of an object
// overtakes an earlier one.
//
// No id is stored twice, however long an outage lasts. Within the stream's
// duplicate window the server ensures that (Nats-Msg-Id is the event's id).
// Beyond it the sink does: as long as an event may have been sent before without
// an answer (the first ones after Open, and those after a failed Write) it reads
// the last message of the event's subject first, counts the event as delivered
// if that message is the event or a later one of the object, and otherwise sends
// it on the condition that the subject has not changed since. The sink reads the subject's last
// message only: where consumers or limits remove it from the stream, the duplicate window is the
// only protection.
//
// The sink creates the stream if it does not exist, unless create is false: file
// storage, all subjects below the prefix, and the last create.historyPerObject events of
// each object. The disk space is proportional to the number of objects, deleted objects
// included. A consumer with a larger lag misses states in between, but never the last
// one, which may be the deletion. Where names never return, as of Pods, create.maxAge
// removes them; it also removes the last state of objects that have not changed for
// that long. At create.maxBytes, or when the server's disk is full, nothing is removed:
// the stream refuses events, and the sink retries until there is free space. Raise
// the stream's limits, or purge subjects.
//
// An existing stream is the user's and never changed, not by these keys either;
// settings that would lose or hide events are an error that names them.
//
// A server or account without JetStream is an error that is retried: enable JetStream, or
// set jetstream: false.
//
// # Without JetStream
//
// Core NATS has no acknowledgement: Write returns when the server has read the
// messages. The server sends them to the current subscribers, once at most; other
// consumers never get them.
//
// # Servers
//
// The sink connects when it has events to write, and only to configured servers, not to others that these
// announce: list all servers of the cluster.
//
// # Permissions
//
// These are the least permissions: publish on "<prefix>.<cluster>.>" and
// subscribe on "_INBOX.>"; with JetStream also publish on
// "$JS.API.STREAM.INFO.<stream>", "$JS.API.DIRECT.GET.<stream>.>" (for a stream without
// allow_direct "$JS.API.STREAM.MSG.GET.<stream>") and, if the sink creates the stream,
// "$JS.API.STREAM.CREATE.<stream>".
package nats

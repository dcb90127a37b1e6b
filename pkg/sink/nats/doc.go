// Package nats is the sink that publishes events to a NATS server, into a
// JetStream stream or as plain messages. Package deliver calls
// the sink; the sink does not route, retry or keep a cursor. docs/sinks/nats.md has
// the subjects, the stream that it creates, and the permissions.
//
// Every event is one message. By
// default it is in CloudEvents binary mode: the attributes are headers
// ([event.Event.AppendHeaders]), the data is the body. The format cloudevents is
// structured mode: the body is the whole event, the content-type says so, and of
// the headers ce-id, ce-resourceversion, ce-time and ce-replay are there. The format raw has the
// headers of binary mode and [event.Event.Raw] as the body.
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
// # Without JetStream
//
// Core NATS has no acknowledgement: Write returns when the server has read the
// messages. The server sends them to the current subscribers, once at most; other
// consumers never get them.
package nats

// Package jetstream keeps the journal in JetStream: in the server that informd
// embeds (package embedded) or in the user's own, over a connection that the
// caller makes.
//
// # What is where
//
// The stream of events is the ledger. Every object has a subject of its own
// ([event.Event.NATSSubject]), so that the last message of a subject is what was
// last announced of the object, and the oldest of its messages go when there are
// more than Config.HistoryPerObject. Two things go with it: the stream
// <Stream>_STATE, which holds the marks of targets, the positions of sinks and
// the identity of the cluster, one subject each; and, once needed, the bucket
// <Stream>_OBJECTS with the bodies that are too large for a message.
//
// # Writing
//
// An event is published on the condition that the last message of its subject is
// the one we know. That makes a resend after a lost acknowledgement harmless, and
// exposes another writer ([ErrFenced]) and a log that lost what it had
// acknowledged ([ErrLost]). The events of one object must be appended by one
// goroutine at a time. Marks and positions are written on the same condition.
//
// # Reading
//
// The newest events are shared in memory; a cursor that is behind reads the
// stream, without acknowledgements on the server: its position is informd's own.
// What the history limit, or a stream that is short of space (share.go), removed before a
// cursor came to it is counted and declared by a gap event (Target "*", reason "trimmed") ahead of what follows. The
// ends of objects among that follow all the same, as copies under
// <prefix>.<cluster>._informd.ended.<id>.
package jetstream

// Package jetstream keeps the journal in JetStream: in the server that informd embeds
// (package embedded) or in the user's server, over a connection that the caller opens.
//
// # Streams
//
// The stream of events is the ledger. Every object has a separate subject
// ([event.Event.NATSSubject]), so that the last message of a subject is the last event of
// the object. The server removes the oldest messages of a subject beyond
// Config.HistoryPerObject. Two more stores belong to it: the stream <Stream>_STATE with the
// checkpoints of targets, the cursors of sinks and the identity of the cluster, one subject
// each; and, when needed, the bucket <Stream>_OBJECTS with bodies that are too large for a
// message.
//
// # Writing
//
// An event is published on the condition that the last message of its subject is the known
// one. So a repeated message after a lost acknowledgement is harmless, and the journal detects
// another writer ([ErrFenced]) and a log that has lost acknowledged events ([ErrLost]). One
// goroutine at a time must append the events of one object. Checkpoints and cursors are
// written on the same condition.
//
// # Reading
//
// Cursors share the newest events in memory. A cursor that is behind reads the stream without
// acknowledgements on the server: informd keeps its position. A gap event (Target "*", reason
// "trimmed") counts the events that the history limit or a stream short of space (package retention)
// removed before the cursor read them, and precedes the next event. Deletions among them
// follow as copies under <prefix>.<cluster>._informd.ended.<id>.
package jetstream

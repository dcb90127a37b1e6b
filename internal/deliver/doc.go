// Package deliver carries events from the journal to the sinks. Each sink has
// one [Runner]: it reads the journal through its cursor, keeps what
// the sink's [Route] lets through, writes it in batches, and commits what the
// destination holds. Sinks know nothing of each other; a slow or dead one
// delays the others only through the journal, once that is full.
//
// # What holds
//
// Every event that the route admits is written at least once, or is in the
// dead-letter queue of the sink with the reason, before its place in the journal is
// committed. Events with the same [event.Event.Key] are written in the order of
// the journal; with one lane all events are. Control records are barriers:
// everything before one is delivered first, and nothing after it goes out
// before it.
//
// An error that another try may mend is retried without limit, with backoff; it
// shows in [Status], in the metrics and in one log line when it begins and one
// when it ends. An error that the sink marks as permanent sends that one event to
// the dead letters, and delivery continues.
//
// The package does not watch anything, knows no sink type and reads no config:
// package daemon wires it.
package deliver

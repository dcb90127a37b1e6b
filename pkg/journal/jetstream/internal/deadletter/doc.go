// Package deadletter keeps the dead letters of the sinks in a stream of the journal's server, one
// subject for each sink.
package deadletter

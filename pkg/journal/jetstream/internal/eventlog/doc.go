// Package eventlog is the stream of events as all parts of the journal know it: its newest
// events, the last event of each subject, the conversion of messages, and the lifetime after
// which all calls fail.
package eventlog

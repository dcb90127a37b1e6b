// Package server has what every request of the journal to its NATS server needs: the time that
// an answer may take, retries with growing pauses, and one log line at each end of an outage.
// It knows no stream.
package server

// Package states reads the last event of each object from the log, for the snapshots of sinks.
package states

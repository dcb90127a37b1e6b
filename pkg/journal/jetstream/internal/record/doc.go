// Package record writes the records of the journal: checkpoints of targets, cursors of sinks, and
// the identity of the cluster. Each is the last message of a subject, written on the condition
// that it follows the known one.
package record

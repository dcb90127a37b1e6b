// Package when evaluates the `condition` of a sink's matches: a CEL expression over an
// event that says whether the sink gets it.
//
// A [Compiler] checks expressions when a config is loaded. An [Expression] is
// evaluated for one event after the other; of the object it decodes what it reads
// and no more, straight from the event's bytes.
//
// The package decides about one expression and one event. Which events an expression
// is asked about, and what becomes of one that fails, is for package deliver; where
// in the file a mistake is, for package config.
//
// # Variables
//
//   - object: the object as the event has it, null if it has none
//   - oldObject: the object before the change, null if the event does not have it
//   - op: the operation, "modified"
//   - event: the event's attributes, see [Fields]
//
// # Bounds
//
// An evaluation ends with an error when its cost comes to [CostLimit]. The cost
// covers time and memory: what a single call may take is charged before it is made. On
// a busy machine it also ends at [TimeLimit].
package when

// Package feed is the stream of events of one target: its index, the writer of its events,
// its position in the watch and its checkpoints. The features of a target share one Feed; it
// knows none of them. All but the status belongs to the goroutine of the target.
package feed

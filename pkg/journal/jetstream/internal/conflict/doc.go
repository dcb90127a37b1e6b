// Package conflict decides what a refused compare-and-set of the journal means: the event is
// stored already, it must be sent again, another informd writes, or the log lost events.
package conflict

//go:build !race

package daemon_test

// wayAllocations are at most those of one event: its data, and its share of what is made
// for each read of the watch and each batch of the sink.
const wayAllocations = 2

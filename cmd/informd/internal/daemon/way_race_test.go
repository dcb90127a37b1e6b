//go:build race

package daemon_test

// wayAllocations are at most those of one event: the race detector makes some of its own,
// and has sync.Pool drop at random what is put into it.
const wayAllocations = 10

// Package status holds the state and the counters of one target. The loop of the target
// writes them; other goroutines read them while it runs.
package status

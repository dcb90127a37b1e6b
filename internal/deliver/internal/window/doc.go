// Package window keeps the events of one sink that its lanes deliver side by side, in the order of
// the journal.
package window

// Package lastindex knows the last message of every subject of the journal's stream, so that
// writes can be conditional without a request for each.
package lastindex

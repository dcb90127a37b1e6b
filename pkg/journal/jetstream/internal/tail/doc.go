// Package tail keeps the newest events of the journal in memory, so that the cursors near the
// end of the log share them and do not ask the server.
package tail

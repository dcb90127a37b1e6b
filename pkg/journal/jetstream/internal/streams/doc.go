// Package streams finds or creates the streams of the journal, and refuses those whose settings
// would lose, trim or hide events.
package streams

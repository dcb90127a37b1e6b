package deliver

import "github.com/informd/informd/pkg/journal"

// Note returns what was noted about the sink last, in the journal; empty if nothing was,
// or if the journal keeps no notes.
func (r *Runner) Note() string {
	if n, ok := r.cursor.(journal.Noter); ok {
		return n.Note()
	}
	return ""
}

// SetNote replaces the note.
func (r *Runner) SetNote(note string) {
	if n, ok := r.cursor.(journal.Noter); ok {
		n.SetNote(note)
	}
}

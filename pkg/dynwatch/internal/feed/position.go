package feed

import (
	"cmp"
	"maps"

	"github.com/informd/informd/pkg/dynwatch/internal/index"
)

// Position is how far a target has come in the history of its resource.
type Position struct {
	// Cursor is the revision up to which everything was appended; see resume. Ahead is
	// the newest that was gathered and is not appended yet, 0 if nothing is.
	Cursor, Ahead uint64
	// Ended are the revisions of deletions at and after the cursor, by key: see resume.
	Ended map[string]uint64
	// Opened is the position at which the open watch began, and proven the one up to which
	// lists and frames have proven the stream, 0 if that is the cursor.
	Opened, Proven uint64
	// Clean is the newest revision at which the index was equal to the list of an API
	// server, or where the target began.
	Clean uint64
}

// Resume is the revision to watch from. Revisions are not unique to an object:
// when a lease of etcd ends, all objects on it (core Events, up to 1,000) are
// deleted at one revision. A watch that was cut among them must begin before
// them, and those that were seen are remembered in ended until the next revision.
func (p *Position) Resume() uint64 {
	for _, at := range p.Ended {
		if at == p.Cursor {
			return p.Cursor - 1
		}
	}
	return p.Cursor
}

// ForgetEnds notes that all that ended up to rv is known.
func (p *Position) ForgetEnds(rv uint64) {
	maps.DeleteFunc(p.Ended, func(_ string, at uint64) bool { return at <= rv })
}

// EndedAt is the revision at which a name that ended at or behind the cursor did
// so, 0 if none did.
func (p *Position) EndedAt(namespace, name string) uint64 {
	if len(p.Ended) == 0 {
		return 0 // as nearly always: no key is to be made for every frame
	}
	return p.Ended[index.Key(namespace, name)]
}

// MoveWithoutFrame notes that the cursor is about to move without a frame, by a list or without one.
func (p *Position) MoveWithoutFrame(listed bool) {
	switch {
	case listed:
		p.Proven = 0
	case p.Proven == 0:
		p.Proven = p.Cursor
	}
}

// ProvenSince is the position from which on the stream is unproven.
func (p *Position) ProvenSince() uint64 {
	if p.Proven == 0 {
		return p.Resume()
	}
	return min(p.Proven, p.Resume())
}

// Resume is the revision to watch from, and to mark: that of the position, or that of a stretch
// that the watch is to bring once more.
func (t *Feed) Resume() uint64 {
	return cmp.Or(t.Coverage.Replays(), t.Position.Resume())
}

// ProvenSince is the position from which on the stream is unproven.
func (t *Feed) ProvenSince() uint64 { return min(t.Position.ProvenSince(), t.Resume()) }

// SetCursor notes that everything up to rv was appended.
func (t *Feed) SetCursor(rv uint64) {
	if rv != t.Cursor {
		maps.DeleteFunc(t.Ended, func(_ string, at uint64) bool { return at < rv })
		t.Marks.Soon()
	}
	t.Cursor = rv
	t.Status.ResourceVersion.Store(rv)
}

// MoveTo moves the cursor to the revision of a frame. The frame proves the stream from where
// its watch began.
func (t *Feed) MoveTo(rv uint64) {
	if rv <= t.Cursor {
		return
	}
	if t.Opened <= t.Proven {
		t.Proven = 0
	}
	t.SetCursor(rv)
}

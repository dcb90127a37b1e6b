package dynwatch

import (
	"maps"

	"github.com/informd/informd/pkg/dynwatch/internal/index"
)

// position is how far a target has come in the history of its resource.
type position struct {
	// cursor is the revision up to which everything was appended; see resume. Ahead is
	// the newest that was gathered and is not appended yet, 0 if nothing is.
	cursor, ahead uint64
	// ended are the revisions of deletions at and after the cursor, by key: see resume.
	ended map[string]uint64
	// opened is the position at which the open watch began, and proven the one up to which
	// lists and frames have proven the stream, 0 if that is the cursor.
	opened, proven uint64
	// clean is the newest revision at which the index was equal to the list of an API
	// server, or where the target began.
	clean uint64
}

// resume is the revision to watch from. Revisions are not unique to an object:
// when a lease of etcd ends, all objects on it (core Events, up to 1,000) are
// deleted at one revision. A watch that was cut among them must begin before
// them, and those that were seen are remembered in ended until the next revision.
func (p *position) resume() uint64 {
	for _, at := range p.ended {
		if at == p.cursor {
			return p.cursor - 1
		}
	}
	return p.cursor
}

// forgetEnds notes that all that ended up to rv is known.
func (p *position) forgetEnds(rv uint64) {
	maps.DeleteFunc(p.ended, func(_ string, at uint64) bool { return at <= rv })
}

// endedAt is the revision at which a name that ended at or behind the cursor did
// so, 0 if none did.
func (p *position) endedAt(namespace, name string) uint64 {
	if len(p.ended) == 0 {
		return 0 // as nearly always: no key is to be made for every frame
	}
	return p.ended[index.Key(namespace, name)]
}

// moves notes that the cursor is about to move without a frame, by a list or without one.
func (p *position) moves(listed bool) {
	switch {
	case listed:
		p.proven = 0
	case p.proven == 0:
		p.proven = p.cursor
	}
}

// provenSince is the position from which on the stream is unproven.
func (p *position) provenSince() uint64 {
	if p.proven == 0 {
		return p.resume()
	}
	return min(p.proven, p.resume())
}

// setCursor notes that everything up to rv was appended.
func (t *feed) setCursor(rv uint64) {
	if rv != t.cursor {
		maps.DeleteFunc(t.ended, func(_ string, at uint64) bool { return at < rv })
		t.marks.Soon()
	}
	t.cursor = rv
	t.status.rv.Store(rv)
}

// moveTo moves the cursor to the revision of a frame. The frame proves the stream from where
// its watch began.
func (t *feed) moveTo(rv uint64) {
	if rv <= t.cursor {
		return
	}
	if t.opened <= t.proven {
		t.proven = 0
	}
	t.setCursor(rv)
}

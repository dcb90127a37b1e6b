package target

import (
	"maps"

	"github.com/informd/informd/pkg/dynwatch/internal/index"
	"github.com/informd/informd/pkg/dynwatch/internal/status"
)

// position is how far a target has come in the history of its resource.
type position struct {
	// rv is the revision up to which everything was appended; see resume. Ahead is
	// the newest that was gathered and is not appended yet, 0 if nothing is.
	rv, ahead uint64
	// Ended are the revisions of deletions at and after the cursor, by key: see resume.
	ended map[string]uint64
	// Opened is the position at which the open watch began, and proven the one up to which
	// lists and frames have proven the stream, 0 if that is the cursor.
	opened, proven uint64
	// logged is the newest revision of an object in the log at the beginning: it can be ahead of the cursor.
	logged uint64
	// Clean is the newest revision at which the index was equal to the list of an API
	// server, or where the target began.
	clean  uint64
	marks  *marks
	status *status.Status
}

// resume is the revision to watch from. Revisions are not unique to an object:
// when a lease of etcd ends, all objects on it (core Events, up to 1,000) are
// deleted at one revision. A watch that was cut among them must begin before
// them, and those that were seen are remembered in ended until the next revision.
func (p *position) resume() uint64 {
	for _, at := range p.ended {
		if at == p.rv {
			return p.rv - 1
		}
	}
	return p.rv
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

// moveWithoutFrame notes that the cursor is about to move without a frame, by a list or without one.
func (p *position) moveWithoutFrame(listed bool) {
	switch {
	case listed:
		p.proven = 0
	case p.proven == 0:
		p.proven = p.rv
	}
}

// provenSince is the position from which on the stream is unproven.
func (p *position) provenSince() uint64 {
	if p.proven == 0 {
		return p.resume()
	}
	return min(p.proven, p.resume())
}

// set notes that everything up to rv was appended.
func (p *position) set(rv uint64) {
	if rv != p.rv {
		maps.DeleteFunc(p.ended, func(_ string, at uint64) bool { return at < rv })
		p.marks.soon()
	}
	p.rv = rv
	p.status.ResourceVersion.Store(rv)
}

// moveTo moves the cursor to the revision of a frame. The frame proves the stream from where
// its watch began.
func (p *position) moveTo(rv uint64) {
	if rv <= p.rv {
		return
	}
	if p.opened <= p.proven {
		p.proven = 0
	}
	p.set(rv)
}

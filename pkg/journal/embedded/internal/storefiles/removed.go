package storefiles

import (
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"slices"
)

// removed is the blocks of one stream that are missing and whose contents are known
// by their second names. Nothing is missing with them if each of their messages
// was superseded by a later one of its subject, which is there, or purged.
type removed struct {
	files []string // the blocks
	// limited says that a later message of a subject may take the place of an
	// earlier one.
	limited bool
	live    map[uint64]string // the messages that were in them: subject by sequence
	last    map[string]uint64 // of their subjects: the last sequence that is there
	// purged are the messages of other blocks of which only these blocks say that
	// they were deleted. While one is there, the server does not remove the note.
	purged map[uint64]bool
	needed bool // a note is
}

// removedFrom returns an empty one for a stream.
func (i *Inspection) removedFrom(stream string) *removed {
	r := &removed{live: make(map[uint64]string), last: make(map[string]uint64), purged: make(map[uint64]bool)}
	content, err := os.ReadFile(filepath.Join(i.Store.stream(stream), "meta.inf"))
	if err != nil {
		return r // nothing may take the place of anything
	}
	var config struct {
		MaxMsgsPerSubject int64 `json:"max_msgs_per_subject"`
	}
	r.limited = json.Unmarshal(content, &config) == nil && config.MaxMsgsPerSubject > 0
	return r
}

// add reads a block by its second name. If it cannot be read or is damaged, the block counts as
// lost.
func (r *removed) add(stream, path string, index uint32) bool {
	live, purged := make(map[uint64]string), make(map[uint64]bool)
	reader := &BlockReader{Stream: stream, saw: func(is record) {
		switch {
		case !is.message():
			purged[is.number()] = true
		case !is.erased():
			live[is.number()] = string(is.subject())
		}
	}}
	if report, err := reader.Check(path, index, false); err != nil || report.Bad > 0 {
		return false
	}
	maps.Copy(r.live, live)
	maps.Copy(r.purged, purged)
	for _, subject := range live {
		r.last[subject] = 0
	}
	r.files = append(r.files, BlockName(index))
	return true
}

// saw takes note of a record of a block that is there.
func (r *removed) saw(is record) {
	switch {
	case len(r.files) == 0:
	case !is.message():
		delete(r.live, is.number())
	case is.erased():
	default:
		r.needed = r.needed || r.purged[is.number()]
		if last, asked := r.last[string(is.subject())]; asked && is.number() > last {
			r.last[string(is.subject())] = is.number()
		}
	}
}

// complete reports whether nothing is missing with the blocks, once all others were
// seen.
func (r *removed) complete() bool {
	if r.needed {
		return false
	}
	for sequence, subject := range r.live {
		if r.purged[sequence] {
			continue
		}
		if !r.limited || r.last[subject] <= sequence {
			return false
		}
	}
	return true
}

// judge says whether the missing blocks of a stream are damage, and whether it had any
// that are none.
func (i *Inspection) judge(stream string, gone *removed, indexes []uint32) (went bool, err error) {
	if len(gone.files) == 0 {
		return false, nil
	}
	slices.Sort(gone.files)
	if !gone.complete() || len(indexes) == 0 {
		for _, file := range gone.files {
			i.Found(blockMissing, "stream", stream, "path", file)
			// Only the second name is left.
			if err := i.move(stream, heldPath(i.Dir, stream, file), file, false); err != nil {
				return false, err
			}
		}
		return false, nil
	}
	i.Logger.Info("journal blocks removed before the restart; no event is missing", "dir", i.Dir, "stream", stream, "count", len(gone.files))
	return true, nil
}

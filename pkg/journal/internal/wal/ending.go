package wal

import (
	"encoding/json"

	"github.com/informd/informd/pkg/journal/internal/record"
	"github.com/informd/informd/pkg/journal/internal/segment"
)

// ending is how the log ends, and what it lacks.
type ending struct {
	gone    []*found       // segments behind the end
	broken  []segment.Name // segments before it of which nothing counts
	odd     bool           // a killed process leaves less behind the end
	damaged bool           // synced records are missing
	hole    uint32         // the newest segment behind missing ones that were synced, 0 without one
}

// shortWrite is how much of a write a killed process may have left at the end of the log.
const shortWrite = writeBytes + 1<<20

// findEnd ends the log at the first invalid bytes, or the first missing segment, that were not synced.
// Behind others the log goes on: they are damage. It returns the segments that have records.
func (s *survey) findEnd(all []*found) (left []*found, end ending) {
	synced := s.syncedUpTo(all)
	through := uint32(0)
	if n := len(all); n > 0 {
		through = all[n-1].Through
	}
	end.damaged = place{segment: through + 1}.before(s.synced)
	next := uint32(1)
	for i, f := range all {
		if f.Number > next && !(place{segment: next}).before(synced) && !f.declares() {
			end.gone, end.odd = all[i:], true
			break
		}
		if f.Number > next {
			end.hole = f.Number
		}
		next = f.Through + 1
		incomplete := f.incomplete(all[i+1:], s.synced)
		f.damaged = incomplete && f.end().before(synced)
		end.damaged = end.damaged || f.damaged
		if !f.headless {
			left = append(left, f)
		} else if f.damaged {
			end.broken = append(end.broken, f.Name)
		}
		if incomplete && !f.damaged {
			end.odd = f.length-f.size > shortWrite || i+1 < len(all)
			end.gone = all[len(left)+len(end.broken):]
			break
		}
	}
	// A last segment without a record does not count: its first sequence says which were skipped, and only
	// its start record would tell.
	if n := len(left) - 1; n >= 0 && left[n].index != nil && len(left[n].index.Entries) == 0 && !left[n].damaged {
		left, end.gone = left[:n], append([]*found{left[n]}, end.gone...)
	}
	return left, end
}

// declares reports whether a segment whose records were read begins with a start that has found a loss: it may have left
// numbers out, which a copy of the log does not know as synced.
func (f *found) declares() bool {
	var s start
	return len(f.named) > 0 && f.named[0] != nil && f.named[0].Kind == record.Start && json.Unmarshal(f.named[0].Value, &s) == nil &&
		s.Checked == f.Number
}

// syncedUpTo is the place before which everything was synced.
func (s *survey) syncedUpTo(all []*found) place {
	up := s.synced
	for _, f := range all {
		if through := (place{segment: f.Through + 1}); (f.indexed > 0 || f.Generation > 0) && up.before(through) {
			up = through
		}
	}
	return up
}

// incomplete reports whether a segment has invalid bytes, or lacks some at its end. Behind are the segments that
// follow, and synced is up to where the log was synced.
func (f *found) incomplete(behind []*found, synced place) bool {
	least := f.indexed
	if f.Generation == 0 && synced.segment == f.Number {
		least = max(least, synced.offset)
	}
	switch follows := len(behind) > 0 && behind[0].Number == f.Number+1 && !behind[0].headless; {
	case f.headless || f.size < least:
		return true
	case f.index == nil:
		return false
	case follows && f.Generation == 0:
		return f.size < behind[0].Previous
	}
	return f.size < f.length
}

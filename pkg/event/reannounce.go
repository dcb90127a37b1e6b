package event

import (
	"strconv"
	"strings"
)

// Reannounced reports whether the event repeats the state that was journaled
// before it, as an entry's `resync` and `informd resnapshot` ask for: a [Snapshot]
// whose PrevResourceVersion is its own revision, or that of the event before it where
// change gates have held newer states back. In the object's chain it counts as any
// other event, but if it is for one sink alone: it then has the Ordinal of the event
// that it repeats.
func (e *Event) Reannounced() bool {
	return e.Op == Snapshot && e.PrevResourceVersion != 0 && (e.PrevResourceVersion == e.ResourceVersion || Run(e.ID) != 0)
}

// ReannouncedID is the id of an object that is announced anew:
// "<uid>:<resourceVersion>:r<run>", where run is another one every time.
func ReannouncedID(uid string, rv, run, epoch uint64) string {
	return runID(append([]byte(uid), ':'), rv, ":r", run, epoch)
}

// ResnapshotID is the id of the two synced records around the objects that are
// announced anew on request: "<target>:<resourceVersion>:synced:s<run>" before the
// first one, and ":r<run>", as the objects have it, in place of ":s<run>" behind the
// last one.
func ResnapshotID(target string, rv, run, epoch uint64, complete bool) string {
	mark := ":synced:s"
	if complete {
		mark = ":synced:r"
	}
	return runID(append([]byte(target), ':'), rv, mark, run, epoch)
}

func runID(b []byte, rv uint64, mark string, run, epoch uint64) string {
	b = append(strconv.AppendUint(b, rv, 10), mark...)
	return string(appendEpoch(strconv.AppendUint(b, run, 10), epoch))
}

// Run returns the run of an id that is a [ReannouncedID], 0 if it is none.
func Run(id string) uint64 {
	if Epoch(id) != 0 {
		id = id[:strings.LastIndexByte(id, ':')]
	}
	digits, ok := strings.CutPrefix(id[strings.LastIndexByte(id, ':')+1:], "r")
	if !ok {
		return 0
	}
	run, err := strconv.ParseUint(digits, 10, 64)
	if err != nil {
		return 0
	}
	return run
}

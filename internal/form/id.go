// Package form has the form of what events carry beside their fields: ids and data. Those who make events build
// both with it, and package event reads them with it. It works on texts, and knows no event.
package form

import (
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"
)

// TimeFormat is that of times in events, which are in UTC.
const TimeFormat = "2006-01-02T15:04:05.000000Z"

// Time renders a time as in events: RFC 3339 in UTC with microseconds.
func Time(t time.Time) string { return t.UTC().Format(TimeFormat) }

// An id is "<what>[:r<run>][:e<epoch>]". The first part identifies the change, and is the
// same however often informd finds the change.

// appendID appends the run and the epoch of an id. No other function writes them into one.
func appendID(what []byte, run, epoch uint64) string {
	if run != 0 {
		what = strconv.AppendUint(append(what, ":r"...), run, 10)
	}
	if epoch != 0 {
		what = strconv.AppendUint(append(what, ":e"...), epoch, 10)
	}
	return string(what)
}

// ParseID returns the run and the epoch of an id, and the part before them.
func ParseID(id string) (what string, run, epoch uint64) {
	what, epoch = cutNumber(id, "e")
	what, run = cutNumber(what, "r")
	return what, run, epoch
}

// cutNumber cuts the suffix ":<letter><number>" off an id. Without that suffix it returns
// the whole id and 0.
func cutNumber(id, letter string) (rest string, number uint64) {
	colon := strings.LastIndexByte(id, ':')
	digits, ok := strings.CutPrefix(id[colon+1:], letter)
	if !ok || colon < 0 {
		return id, 0
	}
	number, err := strconv.ParseUint(digits, 10, 64)
	if err != nil || number == 0 {
		return id, 0
	}
	return id[:colon], number
}

// IDInRun replaces the run and the epoch of an id.
func IDInRun(id string, run, epoch uint64) string {
	what, _, _ := ParseID(id)
	return appendID(append(make([]byte, 0, len(id)+24), what...), run, epoch)
}

// ObjectID is the id of a snapshot, added or modified event, live or replayed:
// "<uid>:<resourceVersion>", followed by ":e<epoch>" from epoch 1 on.
func ObjectID(uid string, rv, epoch uint64) string {
	b := make([]byte, 0, len(uid)+48)
	b = append(b, uid...)
	b = append(b, ':')
	return appendID(strconv.AppendUint(b, rv, 10), 0, epoch)
}

// DeletedID is the id of a deletion, "<uid>:deleted", the same for a live deletion and one
// that a reconcile found.
func DeletedID(uid string, epoch uint64) string {
	return appendID([]byte(uid+":deleted"), 0, epoch)
}

// SelectionID is the id of a left or entered event:
// "<uid>:<resourceVersion>:<op>:<cause>". The cause is the revision of the change that
// moved the object into or out of the selection.
func SelectionID[Op ~string](uid string, rv uint64, op Op, cause, epoch uint64) string {
	return appendID(fmt.Appendf(nil, "%s:%d:%s:%d", uid, rv, op, cause), 0, epoch)
}

// SelectionCause returns the cause in the id of a left or entered event, 0 if it has none.
func SelectionCause(id string) uint64 {
	what, _, _ := ParseID(id)
	cause, _ := strconv.ParseUint(what[strings.LastIndexByte(what, ':')+1:], 10, 64) // 0 for another id
	return cause
}

// GapID is the id of a gap event: "<target>:<from>-<to>:gap".
func GapID(target string, from, to, epoch uint64) string {
	return appendID(fmt.Appendf(nil, "%s:%d-%d:gap", target, from, to), 0, epoch)
}

// StateID is the id of a state event: "<target>:<unix microseconds>:state".
func StateID(target string, at time.Time) string {
	return fmt.Sprintf("%s:%d:state", target, at.UnixMicro())
}

// TrimmedID is the id of the gap event for one sink about events that the journal removed
// unread: "<sink>:<from>-<to>:trimmed". From and to are sequences of the journal, both
// included.
func TrimmedID(sink string, from, to uint64) string {
	return fmt.Sprintf("%s:%d-%d:trimmed", sink, from, to)
}

// DestinationID is the id of the gap event for one sink whose destination has lost its
// events: "<sink>:<milliseconds since 1970>:destination".
func DestinationID(sink string, at time.Time) string {
	return fmt.Sprintf("%s:%d:destination", sink, at.UnixMilli())
}

// Runs generates the numbers of runs. The zero value is ready. Its methods may be called
// concurrently.
type Runs struct {
	mu   sync.Mutex
	last uint64
}

// Next returns a number that is higher than every earlier one: the time in milliseconds
// since 1970. A later process generates higher numbers, unless the clock was set back.
func (r *Runs) Next() uint64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.last = max(uint64(time.Now().UnixMilli()), r.last+1)
	return r.last
}

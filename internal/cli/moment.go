package cli

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/informd/informd/pkg/event"
)

// objectMoment is a time or a revision in the history of an object.
type objectMoment struct {
	Time     time.Time
	Revision uint64 // 0 if it is a time
}

// parseMoment reads a revision; or a time, as "now", how long ago, or as RFC 3339 has it.
func parseMoment(text string, now time.Time) (objectMoment, error) {
	if text == "now" {
		return objectMoment{Time: now}, nil
	}
	if revision, err := strconv.ParseUint(text, 10, 64); err == nil && revision > 0 {
		return objectMoment{Revision: revision}, nil
	}
	if ago, err := time.ParseDuration(text); err == nil && ago >= 0 {
		return objectMoment{Time: now.Add(-ago)}, nil
	}
	if at, err := time.Parse(time.RFC3339, text); err == nil {
		return objectMoment{Time: at}, nil
	}
	return objectMoment{}, fmt.Errorf("%q is no revision and no time: write a revision as in 12345, how long ago as in 10m, or 2026-11-20T10:00:00Z", text)
}

// shownTime is a time of the past, as --at takes it.
func shownTime(t time.Time) string { return t.UTC().Format(time.RFC3339) }

// String names the moment.
func (m objectMoment) String() string {
	if m.Revision > 0 {
		return fmt.Sprintf("revision %d", m.Revision)
	}
	return shownTime(m.Time)
}

// includes reports whether the event is not later than the moment.
func (m objectMoment) includes(e *event.Event) bool {
	if m.Revision > 0 {
		return e.ResourceVersion <= m.Revision
	}
	return !e.Time.After(m.Time)
}

var (
	// errUnknown says that the journal has no event of the object.
	errUnknown = errors.New("the journal has no event of it; informd status shows the resources that informd watches, whose names are plural, as in pods")
	// errBefore says that the moment is before the kept history.
	errBefore = errors.New("the journal keeps no event of it from that time")
)

// unknownObject says that the journal has no event of the object.
func unknownObject(object string) error {
	resource, name, _ := strings.Cut(object, "/")
	if strings.Contains(name, "/") {
		return fmt.Errorf("%s: %w", object, errUnknown)
	}
	return fmt.Errorf("%s: %w; an object in a namespace is %s/<namespace>/%s", object, errUnknown, resource, name)
}

// stateAt returns the event that made the state of the object at a moment. All are the kept
// events, oldest first. The state of [event.Deleted] and [event.Left] is the last one.
func stateAt(all []event.Event, m objectMoment) (*event.Event, error) {
	if len(all) == 0 {
		return nil, errUnknown
	}
	var found *event.Event
	for i := range all {
		if m.includes(&all[i]) {
			found = &all[i]
		}
	}
	if found != nil {
		return found, nil
	}
	at, revision := shownTime(all[0].Time), all[0].ResourceVersion
	switch all[0].Op {
	case event.Deleted:
		return nil, fmt.Errorf("%w: the oldest one is its deletion of %s, which has its last state", errBefore, at)
	case event.Added:
		return nil, fmt.Errorf("%w: it was added at %s, revision %d", errBefore, at, revision)
	default:
		return nil, fmt.Errorf("%w (journal.historyPerObject): the oldest one is of %s, revision %d", errBefore, at, revision)
	}
}

package jetstream

import (
	"errors"
	"fmt"

	"github.com/informd/informd/pkg/event"
)

var (
	// ErrFenced says that another process writes to the same journal: the journal has a newer
	// event of an object than the appended one. The caller must stop writing; a restart reads
	// the journal's state.
	ErrFenced = errors.New("another informd writes to the journal")
	// ErrLost says that the log lacks acknowledged events: its files were damaged, or replaced
	// by an older copy. A restart reads the journal's state and reconciles the rest.
	ErrLost = errors.New("the journal lost acknowledged events")
	// ErrMissing is the [ErrLost] of a stream that was deleted.
	ErrMissing = fmt.Errorf("%w: a stream is missing", ErrLost)
)

// checkStorage is the next step where the journal lost events.
const checkStorage = "check the storage of the NATS server: its files were damaged, deleted or restored"

// verdict says how to go on after the server has refused an event because the last
// message of its subject is not the one that was expected.
type verdict int

const (
	// again: publish it behind the message that is there.
	again verdict = iota
	// held: the message that is there is the event.
	held
)

// known is the last message of a subject.
type known struct {
	seq   uint64 // 0: there is none
	event event.Event
}

// judge compares an event with the last message of its subject. Expected is the
// sequence that this message was expected to have.
//
// Revisions decide, as they count up within one resource and epoch. An event that
// begins an object has no predecessor that could be missing; any other one must
// follow the message that holds its PrevResourceVersion.
func judge(e *event.Event, last known, expected uint64) (verdict, error) {
	begins := e.PrevResourceVersion == 0 || e.Op == event.Snapshot || e.Op == event.Added || e.Op == event.Entered
	same := last.event.UID == e.UID
	epoch, lastEpoch := e.Epoch, last.event.Epoch
	switch {
	case last.seq != 0 && last.event.ID == e.ID:
		return held, nil
	case last.seq == expected, e.Op.Control():
		return again, nil
	case last.seq == 0 && begins:
		return again, nil
	case last.seq == 0:
		return again, fmt.Errorf("%w: %s is missing, and was at revision %d", ErrLost, e.Subject(), e.PrevResourceVersion)
	case same && !begins && last.event.ResourceVersion == e.PrevResourceVersion && epoch == lastEpoch, epoch > lastEpoch:
		return again, nil
	case epoch < lastEpoch, last.event.ResourceVersion > e.ResourceVersion:
		return again, fenced(e, last)
	case begins:
		return again, nil
	case same && last.event.ResourceVersion > e.PrevResourceVersion:
		return again, fenced(e, last)
	}
	return again, fmt.Errorf("%w: %s is at revision %d, and was at %d",
		ErrLost, e.Subject(), last.event.ResourceVersion, e.PrevResourceVersion)
}

func fenced(e *event.Event, last known) error {
	return fmt.Errorf("%w: the last event of %s is %s, newer than %s", ErrFenced, e.Subject(), last.event.ID, e.ID)
}

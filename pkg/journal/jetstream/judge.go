package jetstream

import (
	"errors"
	"fmt"

	"github.com/informd/informd/pkg/event"
)

var (
	// ErrFenced says that another process writes to the same journal: it holds
	// something newer about an object than what was to be appended. Whoever gets
	// it must stop writing; a restart reads back what is there.
	ErrFenced = errors.New("another writer is at work on the journal")
	// ErrLost says that the log lacks events that it had acknowledged: its files
	// were damaged, or replaced by an older copy. A restart reads back what is
	// there and reconciles the rest.
	ErrLost = errors.New("the journal has lost events that it had acknowledged")
	// ErrMissing is the [ErrLost] of a stream that was deleted.
	ErrMissing = fmt.Errorf("%w: a stream was deleted", ErrLost)
)

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
		return again, fmt.Errorf("%w: there is nothing of %s, which was at revision %d", ErrLost, e.Subject(), e.PrevResourceVersion)
	case same && !begins && last.event.ResourceVersion == e.PrevResourceVersion && epoch == lastEpoch, epoch > lastEpoch:
		return again, nil
	case epoch < lastEpoch, last.event.ResourceVersion > e.ResourceVersion:
		return again, fenced(e, last)
	case begins:
		return again, nil
	case same && last.event.ResourceVersion > e.PrevResourceVersion:
		return again, fenced(e, last)
	}
	return again, fmt.Errorf("%w: %s is at revision %d there and was at %d",
		ErrLost, e.Subject(), last.event.ResourceVersion, e.PrevResourceVersion)
}

func fenced(e *event.Event, last known) error {
	return fmt.Errorf("%w: %s has %s there, newer than %s", ErrFenced, e.Subject(), last.event.ID, e.ID)
}

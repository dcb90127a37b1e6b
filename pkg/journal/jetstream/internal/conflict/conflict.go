package conflict

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

// CheckStorage is the next step where the journal lost events.
const CheckStorage = "check the storage of the NATS server: its files were damaged, deleted or restored"

// Outcome is the next step after the server refused an event because the last message of its
// subject was not the expected one.
type Outcome int

const (
	// Again says to publish the event behind the present message.
	Again Outcome = iota
	// Held says that the present message is the event.
	Held
)

// Last is the last message of a subject.
type Last struct {
	// Seq is its sequence, 0 if there is none.
	Seq   uint64
	Event event.Event
}

// Resolve compares an event with the last message of its subject. Expected is the sequence
// that this message was expected to have. The error is [ErrFenced] or [ErrLost].
//
// Revisions decide: they grow within one resource and epoch. An event that begins an object has
// no predecessor that could be missing. Any other event must follow the message that has its
// PrevResourceVersion.
func Resolve(e *event.Event, last Last, expected uint64) (Outcome, error) {
	begins := e.PrevResourceVersion == 0 || e.Op == event.Snapshot || e.Op == event.Added || e.Op == event.Entered
	same := last.Event.UID == e.UID
	epoch, lastEpoch := e.Epoch, last.Event.Epoch
	switch {
	case last.Seq != 0 && last.Event.ID == e.ID:
		return Held, nil
	case last.Seq == expected, e.Op.Control():
		return Again, nil
	case last.Seq == 0 && begins:
		return Again, nil
	case last.Seq == 0:
		return Again, fmt.Errorf("%w: %s is missing, and was at revision %d", ErrLost, e.Subject(), e.PrevResourceVersion)
	case same && !begins && last.Event.ResourceVersion == e.PrevResourceVersion && epoch == lastEpoch, epoch > lastEpoch:
		return Again, nil
	case epoch < lastEpoch, last.Event.ResourceVersion > e.ResourceVersion:
		return Again, fenced(e, last)
	case begins:
		return Again, nil
	case same && last.Event.ResourceVersion > e.PrevResourceVersion:
		return Again, fenced(e, last)
	}
	return Again, fmt.Errorf("%w: %s is at revision %d, and was at %d",
		ErrLost, e.Subject(), last.Event.ResourceVersion, e.PrevResourceVersion)
}

func fenced(e *event.Event, last Last) error {
	return fmt.Errorf("%w: the last event of %s is %s, newer than %s", ErrFenced, e.Subject(), last.Event.ID, e.ID)
}

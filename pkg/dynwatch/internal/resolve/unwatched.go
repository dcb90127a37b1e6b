package resolve

import "time"

// Unwatched is what is known of the time since a watch was open last. If the resource is removed
// meanwhile, the watch has brought all events only if it was the removal that closed it.
type Unwatched struct {
	// since is when the watch was closed, zero while one is open.
	since time.Time
	// denied: the API server has said since then that it does not serve the resource.
	denied bool
	// unknown: later events are, whatever follows.
	unknown bool
}

// handover is how long it can take to open the next watch, or to be told that the resource
// is not served any more. It is also how far apart two watches can bring what follows from
// one change of a definition.
const handover = 2 * time.Second

// discoveryLag is how long discovery can take to follow a definition.
const discoveryLag = 10 * time.Second

// Begin notes that the watch was closed.
func (u *Unwatched) Begin() {
	if u.since.IsZero() {
		u.since = time.Now()
	}
}

// End notes that a watch is open.
func (u *Unwatched) End() { *u = Unwatched{} }

// Unknown notes that something else than a removal keeps the watch from being opened.
func (u *Unwatched) Unknown() { u.unknown = true }

// Denied notes that the API server does not serve the resource.
func (u *Unwatched) Denied() {
	u.Begin()
	u.unknown = u.unknown || !u.denied && time.Since(u.since) > handover
	u.denied = true
}

// unlisted: discovery does not list the resource either.
func (u *Unwatched) unlisted() {
	u.unknown = u.unknown || !u.since.IsZero() && time.Since(u.since) > discoveryLag
}

// lost reports whether events before the removal can be missing. Redefined is when the
// definition was changed last, nil if it was not: that closes the watches, too, and the
// resource can have had events before it was removed.
func (u *Unwatched) lost(redefined *time.Time) bool {
	return u.unknown || redefined != nil && !u.since.IsZero() && redefined.After(u.since.Add(-handover))
}

package resolve

import "time"

// Unwatched is what is known of the time since a watch was open last. If the resource is removed
// meanwhile, it decides whether the watch has brought all events.
//
// For a custom resource it has if the watch was still open when the news of the removal
// came: the API server deletes the objects first, then the definition, and closes the watches
// at least a second later (tearDown in k8s.io/apiextensions-apiserver). For other resources only
// the time between the end of the watch and the first 404 is known.
type Unwatched struct {
	// since is when the watch was closed, zero while one is open.
	since time.Time
	// before: the watch has perhaps not brought all events until its end.
	before bool
	// after: since its end, other things than a removal have kept the next one from being
	// opened, or it took too long to be told of the removal.
	after bool
	// denied: the API server has said since then that it does not serve the resource.
	denied bool
}

// handover is how long it can take to be told that a resource is not served any more, and how
// long an append can take before the watch may have more than was read of it.
const handover = 2 * time.Second

// discoveryLag is how long discovery can take to notice a removal.
const discoveryLag = 10 * time.Second

// Begin notes that the watch was closed.
func (u *Unwatched) Begin() {
	if u.since.IsZero() {
		u.since = time.Now()
	}
}

// End notes that a watch is open.
func (u *Unwatched) End() { *u = Unwatched{} }

// Fail notes that something else than a removal has closed the watch, or keeps it from being
// opened.
func (u *Unwatched) Fail() {
	if u.since.IsZero() {
		u.before = true
	} else {
		u.after = true
	}
}

// Deny notes that the API server does not serve the resource.
func (u *Unwatched) Deny() {
	u.Begin()
	u.after = u.after || !u.denied && time.Since(u.since) > handover
	u.denied = true
}

// unlisted notes that discovery does not list the resource either.
func (u *Unwatched) unlisted() {
	u.after = u.after || time.Since(u.since) > discoveryLag
}

// lost reports whether events before a removal can be missing.
func (u *Unwatched) lost() bool { return u.before || u.after }

// lostOfCustom is lost for a custom resource. Removed is when the news came that its
// definition was removed, nil if none did. Stalled is when the loop last returned from a long wait.
func (u *Unwatched) lostOfCustom(removed *time.Time, stalled time.Time) bool {
	return u.before || removed == nil || u.since.Before(*removed) || stalled.After(removed.Add(-handover))
}

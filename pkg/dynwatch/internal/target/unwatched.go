package target

import "time"

// unwatched records what happened since the last open watch. It answers whether a removal can
// have events that the watch did not bring.
//
// For a custom resource there are none if the watch was open when informd learnt of the
// removal: the API server deletes the objects, then the definition, and closes the watches at
// least a second later (tearDown in k8s.io/apiextensions-apiserver). For other resources
// informd knows only the time between the end of the watch and the first 404.
type unwatched struct {
	// since is when the watch was closed, zero while one is open.
	since time.Time
	// before: the watch has perhaps not brought all events until its end.
	before bool
	// after: since its end, an error other than a removal kept the next watch from being
	// opened, or the first 404 came later than denialLag.
	after bool
	// denied: the API server has said since then that it does not serve the resource.
	denied bool
}

// denialLag limits the time from the end of a watch to the first 404. An append that ends later
// than this before the removal can have left events of the watch unread.
const denialLag = 2 * time.Second

// discoveryLag is how long discovery can take to notice a removal.
const discoveryLag = 10 * time.Second

// begin notes that the watch was closed.
func (u *unwatched) begin() {
	if u.since.IsZero() {
		u.since = time.Now()
	}
}

// end notes that a watch is open.
func (u *unwatched) end() { *u = unwatched{} }

// fail notes that something else than a removal has closed the watch, or keeps it from being
// opened.
func (u *unwatched) fail() {
	if u.since.IsZero() {
		u.before = true
	} else {
		u.after = true
	}
}

// deny notes that the API server does not serve the resource.
func (u *unwatched) deny() {
	u.begin()
	u.after = u.after || !u.denied && time.Since(u.since) > denialLag
	u.denied = true
}

// unlisted notes that discovery does not list the resource either.
func (u *unwatched) unlisted() {
	u.after = u.after || time.Since(u.since) > discoveryLag
}

// lost reports whether events before a removal can be missing.
func (u *unwatched) lost() bool { return u.before || u.after }

// lostOfCustom is lost for a custom resource. Removed is when the news came that its
// definition was removed, nil if none did. Stalled is when the loop last returned from a long wait.
func (u *unwatched) lostOfCustom(removed *time.Time, stalled time.Time) bool {
	return u.before || removed == nil || u.since.Before(*removed) || stalled.After(removed.Add(-denialLag))
}

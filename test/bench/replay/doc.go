// Package replay is an API server that serves the objects of a corpus over TLS, faster
// than any client reads them: paged lists, watches and WatchList, and the discovery documents that clients request. It has no etcd and takes no
// writes. The benchmark sets the rate of events ([Server.Play]).
//
// # Arithmetic history
//
// Revision r of n objects concerns the object (r*stride) mod n. So the server computes the
// object of every revision, and the last revision of every object at any revision, and
// stores nothing. A watch may begin at any revision; no revision is too old.
//
// # Differences to an API server
//
//   - All live events are updates.
//   - The server ignores selectors, except a namespace in the path.
//   - The server writes waiting frames together, up to 64 KiB at a time; an API server writes
//     each frame separately. That makes reading cheaper for every client alike.
//   - Flow control holds a slow watch; the server does not close it.
//   - Everything is JSON and whole, whatever the client accepts.
//   - Nothing is compressed.
package replay

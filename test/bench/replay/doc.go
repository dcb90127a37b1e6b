// Package replay is an API server that serves the objects of a corpus, over TLS and
// faster than any client reads them: paged lists, watches and WatchList, in full
// and metadata only, and as much of discovery as clients ask for. It has no etcd
// and nothing is written to it; whoever measures says when how many events happen
// ([Server.Play]).
//
// # The history is arithmetic
//
// Revision r of n objects concerns the object (r*stride) mod n, so the server knows
// for every revision what happened, and for every object its last revision at any
// revision, and keeps nothing. A watch may begin at any revision, and is never
// told that its revision is too old.
//
// # What differs from an API server
//
//   - All live events are updates.
//   - Selectors are ignored, but for a namespace in the path.
//   - Frames that wait are written together, up to 64 KiB at a time; an API server
//     writes each one by itself. That makes reading cheaper, for every client alike.
//   - A watch that is slow is held by flow control, and not closed.
//   - Lists are JSON, whatever is accepted; metadata-only watches are protobuf if the
//     client prefers that, as client-go's metadata client does.
//   - Nothing is compressed.
package replay

// Package dynwatch turns a set of wanted Kubernetes resources into running
// watches and what they see into an ordered stream of events.
//
// A [Manager] is handed the whole wanted set ([Manager.Apply]) and converges to
// it: one loop per target (one resource, in all namespaces or in one), each with
// its own context and state, so that one bad resource never holds up another.
// Events go to a [Log], which blocks when it is full; nothing is buffered here
// beyond one small batch and the connection's receive buffer (256 KiB a watch), so
// a slow reader holds back the watch and with it the API server's stream.
//
// # Why not a SharedInformer
//
// It lists again on errors that a watch could be resumed from (503, 401, TLS)
// and so merges what happened meanwhile; it turns a deletion and re-creation
// under one name into an update; it drops an event whose handling failed and
// moves on; its buffer towards a slow handler has no bound; and it keeps every
// object decoded in memory. The loop here keeps, per object, its uid and the
// revision of its last event, and passes the object's JSON bytes through.
//
// # Where to find what
//
//   - manager.go: the wanted set and its targets
//   - target.go: one target's loop
//   - state.go: what each error means for it; pause.go: what follows an error
//   - resolve.go, source.go: discovery, and the requests to the API server
//   - plan.go, planwild.go, measure.go, reach.go: what watching would come to, asked without watching
//   - preview.go, previewentry.go: what would become of one change, without an API server
//   - wildcard.go, catalog.go, expand.go: wildcards, and what they match now
//   - twin.go: two entries for one storage; covering.go: what a wanted set covers, by name
//   - access.go: telling which permissions are missing
//   - served.go, definition.go, look.go: resources that come and go, and versions;
//     fallback.go: a version that does not answer; unserved.go: a resource that was removed
//   - authority.go: who may say that something was deleted; returned.go: deleted objects
//     that return; nonamespace.go: a namespace that is gone with the permission to read it
//   - metadatawatch.go: what follows the definitions, the Namespaces and controllers
//   - sweep.go: lists, compared with the index (first snapshot and reconcile); compare.go:
//     the same with metadata only, and the bodies of what differs
//   - follow.go: the watch; gather.go: what arrives together is appended together
//   - lost.go, recover.go: expired history (410); rollback.go: restored storage
//   - retrace.go: a short range of lost history, listed revision by revision
//   - walk.go, life.go: a long one, read from etcd object by object
//   - audit.go, verify.go: the index, compared with a list while the watch runs
//   - resync.go, resnapshot.go: objects that are announced anew, once per period and
//     on request; reannounce.go: what the two share
//   - selection.go: telling "left" from "deleted" under a selector
//   - filter.go, namespaces.go, coverage.go: which namespaces a target covers
//   - stores.go: whether namespaces are in one store with the objects
//   - turn.go, depart.go: namespaces that come to match, or no longer do; leftout.go:
//     what came of one before it was known to match
//   - shape.go: what of an object goes into its events
//   - gate.go: which of its changes become events
//   - changes.go: what an event says of how its object has changed
//   - index.go, emit.go: what is remembered of an object, and the events
//   - owner.go: what events have beside the object; owners.go, ownerindex.go, ownerrows.go:
//     the controllers of controllers; planowners.go: what it takes to read them
//   - status.go, rate.go: what others may know of a target while it runs
//   - ledger.go: what the log remembers of it all, over restarts; dropped.go: what it
//     does not know to be gone
//   - internal/frame: the bytes
package dynwatch

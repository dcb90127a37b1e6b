// Package dynwatch converts a set of wanted Kubernetes resources into running watches, and
// their frames into an ordered stream of events.
//
// A [Manager] takes the whole wanted set ([Manager.Apply]) and converges to it: one loop per
// target (one resource, in all namespaces or in one), each with a separate context and
// state, so that one bad resource never blocks another. Events go to a [Log], which blocks
// when it is full. The package buffers one small batch per target, and the kernel the
// receive buffer of the connection (256 KiB per watch). So a slow reader holds back the
// watch, and the watch holds back the API server's stream.
//
// # Why not a SharedInformer
//
//   - A SharedInformer lists again after errors from which a watch can resume (503, 401, TLS),
//     and so merges the changes in between.
//   - It reports a deletion and re-creation under one name as an update.
//   - It drops an event whose handler failed, and continues.
//   - Its buffer for a slow handler has no limit.
//   - It keeps every object decoded in memory.
//
// The loop of this package keeps the UID and the revision of the last event per object, and
// passes the object's JSON bytes through.
//
// # Files
//
//   - `manager.go`: the wanted set and its targets
//   - `target.go`: the loop of one target
//   - `state.go`: the effect of each error on the target; `pause.go`: the pause after an error
//   - `resolve.go`: discovery, and the source of the requests about a resource
//   - `plan.go`, `planwild.go`, `measure.go`, `reach.go`: the estimate of a wanted set, without watches
//   - `preview.go`, `previewentry.go`: the event of one change, without an API server
//   - `wildcard.go`, `catalog.go`, `expand.go`: wildcards and their expansion
//   - `twin.go`: aliases of one storage; `covering.go`: the entries that match a resource, by name
//   - `access.go`: missing permissions; `internal/access` asks for them
//   - `served.go`, `definition.go`, `look.go`: rediscovery of resources and versions;
//     `fallback.go`: a version that does not answer; `unserved.go`: a removed resource
//   - `authority.go`: the authorities for deletions; `returned.go`: deleted objects that return;
//     `nonamespace.go`: a namespace that was deleted with the permission to read it
//   - `metadatawatch.go`: metadata-only watches of definitions, Namespaces and controllers
//   - `sweep.go`: lists, compared with the index (first snapshot and reconcile); `compare.go`:
//     the same with metadata only, and the bodies of objects that differ
//   - `follow.go`: the watch; `gather.go`: batches of events that arrive together
//   - `lost.go`, `recover.go`: expired history (410); `rollback.go`: restored storage
//   - `retrace.go`: range replay, by lists at each revision
//   - `walk.go`, `life.go`: the history walk, object by object
//   - `audit.go`, `verify.go`: the index, compared with a list while the watch runs
//   - `resync.go`, `resnapshot.go`: re-snapshots on a schedule and on request; `reannounce.go`: the
//     common part
//   - `selection.go`: the difference between left and deleted under a selector
//   - `filter.go`, `namespaces.go`, `coverage.go`: the namespaces of a target
//   - `stores.go`: whether Namespaces and objects are in one store
//   - `turn.go`, `depart.go`: namespaces that are matched and unmatched; `leftout.go`: frames that
//     were filtered out before the namespace was known to match
//   - `shape.go`: the content of objects in events
//   - `gate.go`: change filters
//   - `changes.go`: the changed paths, the patch and the old object of an event
//   - `emit.go`: the events
//   - `owner.go`: field manager and owner chain; `owners.go`, `ownerindex.go`, `ownerrows.go`: the
//     controllers of controllers; `planowners.go`: the permissions for them
//   - `status.go`, `rate.go`: the state of a target for other goroutines
//   - `ledger.go`: the restored index and checkpoint after a restart; `dropped.go`: objects that an
//     edited selector excludes
//   - `internal/kube`: connections, discovery documents, the identity of the cluster, limits on requests
//   - `internal/listwatch`: the requests about one resource: watches, pages of lists, look-ups
//   - `internal/frame`: the bytes; `internal/index`: the last event of each object, without content
package dynwatch

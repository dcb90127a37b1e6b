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
// # Use
//
// [Run] watches resources and calls a function with each event. For several readers, a changing
// set of resources or the states of targets, use a Manager:
//
//	manager, err := dynwatch.New(options)
//	if err != nil {
//		return err
//	}
//	defer manager.Close()
//	err = manager.Apply([]dynwatch.Resource{{Group: "apps", Resource: "deployments"}})
//
// [New] contacts no server. Apply starts and ends targets, and does not wait until they are
// live: [Manager.Targets] has their states. Call it again with the whole set to change what is
// watched. [Manager.Close] cancels the calls of the targets to the Log, and waits for their end.
// A Manager that was closed cannot be used again.
//
// # Errors
//
//   - Errors of Apply concern the wanted set. It then changes nothing, and names every fault: see
//     [ResourceError].
//   - Errors of the API server stop nothing. The target keeps its position, retries with
//     backoff, and has a [State] and a reason: [Forbidden], [Waiting], [Stale] or [Degraded].
//   - Lost history is reported as a gap event. The differences that a list shows are events as
//     well, before or after the gap.
//   - An error of Append, Mark, Last or Reject stops the target for good, unless Close or
//     Apply ended the context. The state is [Stopped]. Close the Manager, and begin with a new
//     one on a log that works. After an error of Restore, the target retries.
//   - An object that is not valid goes to Reject, and the target continues.
//
// # Concurrency
//
// All methods of a Manager may be called concurrently. Targets call the Log and Reject
// concurrently; one target makes one call at a time. The Data of appended events is valid until
// Append returns.
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
package dynwatch

// Package informer implements client-go's informers over the watch loop of package dynwatch.
//
// A [Factory] replaces dynamicinformer.NewFilteredDynamicSharedInformerFactory, and
// [NewSharedIndexInformer] replaces cache.NewSharedIndexInformer. The interfaces are those of
// client-go; handlers, listers and indexers work unchanged.
//
// A [Reconciler] is a controller over a factory: it calls a function for each changed object.
//
// # Differences from client-go
//
//   - The store keeps objects compressed, as JSON. Each read decodes a new copy, which the caller
//     may change. Reading all objects again and again is slower than with client-go; a [Lister]
//     decodes only the objects that it returns, and [FieldIndex] reads values without decoding.
//   - Each handler gets separate copies of objects, and has a queue with a limit: see
//     [Options]. A full queue blocks the watch of that informer only.
//   - A panic in a handler is logged and counted in [Stats]. The handler continues with the next
//     notification, and the process does not end.
//   - A deletion and re-creation under one name is a delete and an add, never an update.
//   - [Factory.Stop] ends the informer of one resource.
//
// # Concurrency
//
// All methods may be called concurrently. Calls to one handler follow each other; calls to
// different handlers do not wait for each other. A handler may call any method except
// [Factory.Stop], [Factory.Shutdown] and the release of [Factory.Use], which wait for handlers. The
// same is true of a handler of SetWatchErrorHandler. It blocks its watch and must not wait.
//
// If a handler blocks for ever, its informer waits as soon as the handler's queue is full, until
// RemoveEventHandler. Other informers of the factory deliver,
// start and stop without delay. Stop of the blocked informer ends its watch, frees the
// resource for a new informer, and returns when the handler does.
//
// # Errors
//
// Errors of the API server do not end an informer: it retries, and reports them to the handler of
// SetWatchErrorHandler. An object that is not valid, or that its Go type cannot hold, is logged and
// counted, and its last valid state stays in the store.
package informer

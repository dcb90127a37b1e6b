// Package informertest has a fake API server for tests of programs that use pkg/informer,
// pkg/dynwatch or a client of client-go that reads.
//
// [New] returns a [Cluster]. The test changes its objects and injects faults that real API servers
// have; the program gets [Cluster.Config]. Requests go through the Transport of that configuration,
// without a socket or a goroutine; only the timeouts of watches use the clock. So everything happens in
// the order of the test, and tests can run in the bubble of testing/synctest: make the cluster and the
// channels inside of it. test/informer compares the answers with those of a real API server.
//
//   - Lists have pages and consistent revisions; watches have a history, bookmarks and ERROR frames.
//   - Label selectors, field selectors by any path, and metadata-only answers work. Real API servers
//     refuse most fields.
//   - Discovery serves groups, versions and resources, which [Cluster.Serve] and [Cluster.Remove]
//     change. There is no aggregated discovery, and no OpenAPI.
//   - The cluster accepts no writes of clients, no WatchList, and no access reviews. Tests write through
//     [Cluster.Put], [Cluster.Patch] and [Cluster.Delete], each of which makes one revision. Put compares
//     no resourceVersion, Delete waits for no finalizer, and nothing that an object owns goes with it.
//
// Wrong objects and faults panic: the test is wrong then.
package informertest

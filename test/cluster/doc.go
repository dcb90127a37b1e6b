// Package cluster runs a real Kubernetes control plane for tests: one etcd and
// one or two kube-apiservers, each a process of its own, on loopback ports and
// in a directory of their own. Tests kill, freeze and restart the processes,
// compact etcd by hand, restore it from a snapshot with etcdutl, and mint users
// with limited rights.
//
//	func TestSomething(t *testing.T) {
//		c := cluster.Start(t, cluster.Options{})
//		client := kubernetes.NewForConfigOrDie(c.RESTConfig())
//		...
//		c.APIServer(0).Kill()
//		c.APIServer(0).Start(t.Context()) // same port, same data
//	}
//
// The package is light: the servers live in the binary of ../controlplane, which
// package binary builds and caches. A first build outlasts the default time limit
// of go test, so run go run ./cluster/build in the test module before.
//
// # What differs from a production cluster
//
//   - No controller manager, scheduler or kubelet, unless Options say so. Without
//     them, Pods stay pending; nothing is garbage collected; a deleted Namespace
//     stays terminating until its finalizer is removed through the finalize
//     subresource. In place of kubelets, kwok can play the nodes.
//   - The API server does not compact etcd, unless Options say so: history ends
//     only where a test calls [Cluster.Compact].
//   - Admission is NamespaceLifecycle, webhooks and admission policies; the other
//     plugins, which need controllers or change objects, are off.
//   - etcd does not fsync and has neither TLS nor authentication.
//
// The serving certificate is valid for 127.0.0.1 and localhost, whatever the port,
// so a test may put a TCP proxy in front of a server.
package cluster

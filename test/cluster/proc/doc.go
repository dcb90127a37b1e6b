// Package proc runs one server as a process of its own, for tests that kill,
// freeze and restart it: [Process]. It also provides what such a server needs
// around it: a working directory that is gone afterwards ([Dir]) and a loopback
// port that stays its own between two starts ([Port]).
//
// It knows nothing of Kubernetes or NATS; packages cluster and natsserver do.
//
// # Nothing is left behind
//
// On Linux the kernel kills the children when the process that started them is
// gone, whatever ended it. A temp dir whose owner was killed is removed by the
// next [TempDir] of the same kind. A reserved port is an open socket, so it needs
// no cleaning up.
package proc

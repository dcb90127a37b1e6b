// Package target is the life of one target: one resource, in all namespaces or in one. Its loop is a switch over
// named states (target.go): it finds the resource, lists it, follows a watch, and recovers what the watch has lost.
//
// What the API server sends is compared with what the log holds (frames.go, list.go). Package decide
// says what follows, missing.go what became of an object that is no longer shown, objects.go emits it. rollback.go
// finds out whether etcd was restored. checkpoint.go and restore.go have what a restart begins with.
//
// The parts that can be tested alone are packages of their own: decide, emit, index, listwatch, recovery, selection.
package target

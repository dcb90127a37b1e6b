// Package target is the life of one target: one resource, in all namespaces or in one. Its loop is a switch over
// named states (target.go): it finds the resource, lists it, follows a watch, and recovers what the watch has lost.
//
// The methods of Target are the steps of the loop. What they share is in parts of it: each is a type with its state and
// the few other parts that it uses. The largest is objects: it compares what the API server shows with what the log holds
// (frames.go, list.go), and announces the difference. Package decide says what follows, missing.go what became of an
// object that is no longer shown, lookup.go what etcd says of one by name. rollback.go finds out whether etcd was
// restored. checkpoint.go and restore.go have what a restart begins with.
//
// The parts that can be tested alone are packages of their own: decide, emit, index, listwatch, recovery, selection.
package target

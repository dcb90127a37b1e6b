// Package retention removes from the stream what no sink needs: the history of deleted
// objects, deletion events after their time, bodies without an event, and, if the stream runs
// short of space, history that was delivered and the oldest events of large namespaces.
package retention

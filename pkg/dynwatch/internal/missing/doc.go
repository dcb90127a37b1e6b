// Package missing decides what became of an object that a frame or a list no longer shows. It
// was deleted, it left the selection, an edit of the config dropped it, or it exists and the
// list is wrong. The package asks the API server and emits the event.
package missing

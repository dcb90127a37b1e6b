// Package sweep compares what the API server sends with the index, and emits the differences:
// lists, with or without bodies, and the frames of a watch. It also finds out whether an answer
// is of the history that was announced, or etcd was restored.
package sweep

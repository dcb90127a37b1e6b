// Package resnapshot announces the objects of a target again: on request, and
// where the log has no bounds of a snapshot of the target.
package resnapshot

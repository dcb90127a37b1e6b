// Package resnapshot announces the objects of a target again: on a schedule, on request, and
// after the journal has lost its events.
package resnapshot

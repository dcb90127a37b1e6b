// Package resolve finds the resource of a target in discovery and keeps it: the version to
// watch, another one if that fails, and the deletions when the resource was removed.
package resolve

// Package bounds makes the begin and synced events of the snapshot that a new sink gets.
package bounds

// Package past answers questions about the kept events of one object: its state at a moment,
// what changed between two states, and a manifest that brings it back. It contacts no server.
package past

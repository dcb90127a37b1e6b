// Package publish appends events to the stream: in order for each object, on the condition
// that the subject's last message is the known one, and for as long as it takes.
package publish

// Package message is the form of an event in the journal's stream: its subject, its headers, and
// its body, which can be compressed, or an object of a bucket if no message can carry it.
package message

// Package storefiles reads and repairs the files of nats-server's file store (2.15), whose format
// is private to the server. It is the only package that knows that format.
//
// informd needs it for two reasons. First, the server passes over damage without an error, and
// removes files for good reasons as well: only the content of the files distinguishes the two.
// Second, after an unclean end the server (2.15) brings back messages that it had removed, among
// them superseded events of deleted objects, and may search for one of them without end:
// revived.go records them as removed. That part can go when the server keeps removed messages
// removed.
package storefiles

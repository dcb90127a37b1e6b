// Package listwatch makes the requests about one resource: it opens watches, lists page by
// page, looks objects up by name and asks for the newest revision.
//
// Every list is read as a stream, so memory does not grow with a page, and stops at the
// items that were asked for, whatever the server sends. Failed pages are requested again with
// the same continue token. A [Source] reports what the server said and decides nothing: its
// callers are the target's loop, the plan, and [MetadataWatch], which follows the few objects of a kind that says
// something about targets: Namespaces and definitions of resources.
package listwatch

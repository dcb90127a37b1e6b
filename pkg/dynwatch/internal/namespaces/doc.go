// Package namespaces follows the namespaces that a target selects by their labels. One watch reads the
// Namespaces for all targets (package selection), and each target watches its resource in all
// namespaces and filters. The two watches have no common order, so that a change of a Namespace
// takes effect between two frames of the target's own stream.
//
// A namespace begins to match, at revision c of the Namespaces. The target lists it at exactly its
// position, and the objects enter. Frames of it can have been filtered out after c, since the watch of
// the Namespaces was behind: of each namespace the target notes the newest one. Then it lists
// the namespace at c, and opens its watch at c once more: up to the former position, only frames of
// that namespace count. Where that is not possible, it lists the namespace now, ignores its frames up
// to that list, and declares a gap (selection): if etcd has compacted the revision, the log has
// later events of the namespace, an attempt failed halfway, or c is not known.
//
// A namespace no longer matches. The target lists it now, at revision N. Objects that are as the
// log has them leave at once. Frames of the namespace count until the watch has passed N, and with
// that the rest leaves or is deleted.
//
// A restart. The checkpoint has a hash of the names of the namespaces that match. It is 0
// from before the first event of a flip until the watch has passed all of it. With another hash than
// that of now, package reconcile compares all objects with a list of now, and the watch, which begins
// at the position, brings what is newer. Namespaces in the log that do not match leave
// after that, as above. A gap (selection) declares the time since log and Namespaces were in line.
//
// Namespaces in a store of their own have other revisions. Then a namespace that begins to match is
// listed now, with a gap from the beginning.
//
// So no deletion and no last state is lost. Close to a change of a Namespace, an object that is new
// can have entered, and one that existed can be added.
package namespaces

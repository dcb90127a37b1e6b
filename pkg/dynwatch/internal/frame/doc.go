// Package frame is the byte path: it turns what the API server sends into
// normalised object bytes, and reads an object's identity on the way, without
// ever decoding an object into maps or structs.
//
// A [Normaliser] validates and normalises one object in one pass. [NewRESTClient]
// puts it under client-go's dynamic client, so that a watch delivers [Watched]
// values instead of unstructured objects, and [ReadList] feeds it with the items
// of a list of any length in constant memory.
//
// # Normalised
//
// A normalised object begins with apiVersion and kind, those that discovery told
// (the items of typed lists have none, and metadata frames say
// PartialObjectMetadata), and goes on with the object's own members in their own
// order. metadata.managedFields and the annotation
// kubectl.kubernetes.io/last-applied-configuration are cut out, and so is an
// annotations object that becomes empty by this. In Secrets, the values in data,
// stringData and annotations, but for harmless ones (annotations.go), are replaced by a
// keyed hash ([Redactor]). White space outside
// strings is always removed, so that an object is one line and the same object
// gives the same bytes, however a server prints it. All else is kept byte for
// byte: numbers, escapes, the order of keys.
//
// Who wrote an object last, in managedFields, and its controller, in ownerReferences, are
// read in that pass where a shape asks for them (actor.go, owner.go). If anything of the
// two is not as the API server writes it they are not known: a wrong name is worse than none.
//
// A [Shape] is what the rules of a resource make of that, in a second pass: parts of the
// object are left out, values and parts of strings replaced by the hash.
//
// # Malformed
//
// The bytes that go on are valid JSON: the grammar is checked as strictly as
// encoding/json does, and text that is not UTF-8, which encoding/json mends
// silently, is refused. An object that has no name, uid or revision, or names a
// key twice of those that are read or cut, is refused as well: no reader can know
// which one another reader takes. A refused object comes out as [Malformed], with
// its identity as far as it could be read, and does not disturb its neighbours.
//
// The package does not keep a watch going, compare revisions or know what an
// event is: that is package dynwatch, its only caller.
package frame

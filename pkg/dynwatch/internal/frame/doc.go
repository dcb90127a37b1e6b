// Package frame is the byte path: it converts the output of the API server into normalised
// object bytes and reads an object's identity, without decoding an object into maps or
// structs. Package dynwatch is its only caller.
//
// A [Normaliser] validates and normalises one object in one pass. [NewRESTClient] puts it
// under client-go's dynamic client, so that a watch delivers [Watched] values instead of
// unstructured objects. [ReadList] feeds it with the items of a list of any length in
// constant memory.
//
// # Normalised
//
// A normalised object begins with apiVersion and kind from discovery, because items of typed
// lists have none, and metadata frames have PartialObjectMetadata. The object's own members
// follow in their own order.
//
//   - metadata.managedFields and the annotation
//     kubectl.kubernetes.io/last-applied-configuration are dropped, and so is an annotations
//     object that becomes empty.
//   - White space outside of strings is dropped. So an object is one line, and the same object
//     gives the same bytes, however a server prints it.
//   - All other bytes stay: numbers, escapes, the order of keys.
//
// If a shape needs the last field manager (from managedFields) or the controller (from
// ownerReferences), the same pass reads them (asked.go). If either is not in the
// form of the API server, it is unknown: a wrong name is worse than none.
//
// A [Shape] applies the rules of a resource in further passes. In Secrets, a keyed hash
// ([Redactor]) replaces the values in data, stringData and annotations, except harmless annotations
// (secret.go). Then the rules drop parts of the object, and replace values and parts of strings.
//
// # Malformed
//
// The output is valid JSON. The grammar check is as strict as encoding/json, and also refuses
// text that is not UTF-8, which encoding/json replaces silently. The package refuses an
// object without a name, UID or revision, and one with a repeated key among those that it
// reads or drops, because readers would disagree about it. A refused object becomes a
// [Malformed] with its identity as far as it is readable, and does not affect other objects.
//
// The package does not run a watch, compare revisions or know events: that is the job of
// package dynwatch.
package frame

// Package fieldpath names values inside a JSON object and acts on them in its bytes,
// without decoding it into maps: [Projection] leaves out what is not wanted, [Rewriter]
// replaces values, and [Set.Walk] shows those that paths lead to.
//
// # Paths
//
// A path is keys joined by dots, as in spec.template. Two signs stand for many: "*" is
// every key of an object, as in data.*, and "[]" every element of an array, as in
// spec.containers[].image. Where a key follows, "[]" may be left out: a key that meets an
// array is about each of its elements, so that a forgotten "[]" does not leave in the
// clear what was to be redacted. A key that is more than letters, digits, "_", "-" and "$"
// goes in brackets and quotes, as a JSON string has it:
// metadata.annotations["example.com/a"]. A path that meets a value of another type than
// it is about leads nowhere.
//
// # Bytes
//
// The bytes given to this package are one valid JSON object without white space outside
// of strings, as package dynwatch makes them; of anything else the results mean
// nothing, and the package may panic. Keys are compared decoded, whatever escapes they
// are written with. Where an object has a key twice, each of them is meant.
//
// [Rules] are paths with a meaning for Kubernetes objects, as the keys keep, omit and
// redact of informd's config have them.
//
// The package imports the standard library and jsonend only, and is safe for concurrent use.
package fieldpath

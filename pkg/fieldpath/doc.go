// Package fieldpath selects values inside a JSON object by path and edits the bytes, without
// decoding them into maps: [Projection] drops values, [Rewriter] replaces values, and
// [Set.Walk] visits values.
//
// # Paths
//
// A path is keys joined by dots, as in spec.template.
//
//   - "*" is every key of an object, as in data.*
//   - "[]" is every element of an array, as in spec.containers[].image. Before a key it may be
//     omitted: a key that meets an array applies to each element. So a forgotten "[]" exposes
//     no value that should be redacted.
//   - A key with other characters than letters, digits, "_", "-" and "$" is in brackets and
//     quotes, as a JSON string: metadata.annotations["example.com/a"].
//   - A path that meets a value of another type matches nothing.
//
// # Bytes
//
// The input is one valid JSON object without white space outside of strings, as package
// dynwatch makes them. For other input the results are undefined, and the package may
// panic. Keys are compared decoded, with any escapes. If an object has a key twice, a path
// matches both.
//
// [Rules] are paths with a meaning for Kubernetes objects: the keys keep, omit and redact of
// informd's config.
//
// The package imports the standard library, jsonend and internal/search only, and is safe
// for concurrent use.
package fieldpath

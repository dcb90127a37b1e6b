// Package change says what is different between two states of an object: [Of] compares
// their bytes, without decoding them into maps, and the [Set] it returns writes that down
// as a list of paths or as a patch.
//
// The bytes are normalised objects, as package frame makes them: valid JSON without white
// space outside of strings. What is equal byte for byte is equal, and most of an object
// is: it is found by one scan of one of the two. Of the rest,
//
//   - members belong together by their key, decoded, in whatever order they stand; where
//     an object has a key twice, the last one counts, as for encoding/json
//   - elements of arrays belong together by their place: what both arrays begin and end
//     with, byte for byte, is put aside, and of the rest the first belongs to the first,
//     until one array has no more
//   - strings are equal if they say the same, whatever escapes they are written with; with
//     half a surrogate pair in them, if they are written alike
//   - numbers are equal if they are written alike: 1 and 1.0 differ
//   - what is in very many levels of other values (16, where nearly all of a large object
//     is that deep) is equal byte for byte or not at all, and what differs is one change of
//     the whole value there, so that no object makes a comparison long: no more is scanned
//     than 1 MiB, or 16 times the objects
//   - if the patch became longer than 64 KiB and twice the object, what changed is told by
//     the members of the object itself, so that no set is much larger than an object
//
// The package has no state and is safe for concurrent use.
package change

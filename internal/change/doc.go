// Package change compares two states of an object: [Of] compares their bytes, without
// decoding them into maps, and returns a [Set], which renders the difference as a list of
// paths or as a patch.
//
// The bytes are normalised objects, as package frame makes them: valid JSON without white
// space outside of strings. One scan finds the parts that are equal byte for byte: most of
// an object. For the rest:
//
//   - Members match by their decoded key, in any order. If an object has a key twice, the last
//     one counts, as in encoding/json.
//   - Elements of arrays match by position, after the common first and last elements are
//     removed, until one array has no more.
//   - Strings are equal if their decoded values are equal. With half a surrogate pair they are
//     equal if they are written alike.
//   - Numbers are equal if they are written alike: 1 and 1.0 differ.
//   - Values below many levels (16, where nearly all of a large object is that deep) are
//     compared byte for byte, and a difference is one change of the whole value. So no object
//     makes a comparison slow: it scans at most 1 MiB, or 16 times the objects.
//   - If the patch would be longer than 64 KiB and twice the object, the changes are the
//     top-level members, so that no set is much larger than an object.
//
// The package has no state and is safe for concurrent use.
package change

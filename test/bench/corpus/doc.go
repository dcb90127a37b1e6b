// Package corpus generates the Pods of the benchmarks from a fixed seed: the same ones on every
// machine and in every run. They have 5 to 11 KB and 9 KB on average, of 64 shapes (one to three
// containers, probes, volumes, owners, conditions), about a third of the bytes being managedFields.
//
// A corpus holds no objects in memory. Objects share templates, which are rendered once in
// each [Form] that an API server sends. Slots of fixed width hold the differences between
// objects and revisions; [Corpus.Append] fills them. So rendering an object costs little
// more than a copy, and a million objects need no more memory than one of each shape.
package corpus

// Package corpus makes the Kubernetes objects that the benchmarks serve: the same
// ones on every machine and in every run, from a fixed seed.
//
//   - [Pods]: 5 to 11 KB and 9 KB on average, of 64 shapes (one to three containers, probes, volumes,
//     owners, conditions), about a third of the bytes being managedFields
//   - [Samples]: custom resources of about 1 KB
//   - [ConfigMaps]: 100 KB to 1 MB
//
// A corpus has no objects in memory. Objects share templates, which are rendered
// once, in each [Form] that an API server sends; what tells objects and revisions
// apart stands in slots of fixed width that [Corpus.Append] fills in. So rendering
// an object costs little more than copying it, and a million of them need no more
// memory than one of each shape.
package corpus

// Package laststate keeps the last states of the objects of one target in little memory,
// for what is to be told of a change beside the new state where the journal does not keep
// it.
//
// # Dictionaries
//
// Objects are much like their siblings: two Pods of a Deployment differ in a name, a uid,
// addresses and times. So a few objects serve as dictionaries, and of the others s2 keeps
// what is different. An object becomes a dictionary when another one, which no dictionary
// fits, comes out short with it; the first one need not fit as well, for even Pods that have
// nothing to do with each other have most of their text in common. A state stays with its
// dictionary as long as that does not get worse. Less than 32 states have none, for a
// dictionary takes 32 KiB beside the object; then there is one, and one more for each 256
// states up to 32. One that no state needs is forgotten, and one that fewer than 16 need
// makes room for another. Objects of more than 64 KiB are compressed for themselves.
//
// # Figures
//
// Memory for an object, everything included (TestMemory), and the time to put a changed
// state (BenchmarkPut); Append takes 1 µs:
//
//	2,000 objects                      size      memory   time
//	Pods of 4 Deployments              4.6 KB    0.6 KB   4 µs
//	Pods of 40 Deployments, mixed      5.2 KB    1.2 KB
//	Pods of 400 Deployments            5.2 KB    1.3 KB
//	Pods without siblings              5.3 KB    1.1 KB   6 µs
//	ConfigMaps that share nothing      2.2 KB    1.6 KB   9 µs
//	3 Pods                             3.8 KB    3.6 KB
//
// The first state of an object that no dictionary fits takes 50 µs. The Pods of a test have
// more that is random than most Pods; nearly identical ones take some 100 bytes, and 80 for
// the state itself.
//
// A store belongs to one goroutine.
package laststate

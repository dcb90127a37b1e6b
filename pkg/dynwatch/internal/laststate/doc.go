// Package laststate keeps the last states of a target's objects in little memory. Events
// with changes need them where the journal does not keep them.
//
// # Dictionaries
//
// Objects resemble their siblings: two Pods of a Deployment differ in a name, a UID, addresses
// and times. So a few objects serve as dictionaries, and for the others s2 keeps the
// differences.
//
//   - An object becomes a dictionary when another one, which fits no dictionary, compresses well
//     with it. The first one need not compress well: even unrelated Pods share most of their
//     text.
//   - A state keeps its dictionary while the compression does not get worse.
//   - Fewer than 32 states have no dictionary, because one takes 32 KiB beside the object. From
//     there on the store has one, and one more for each 256 states, up to 32.
//   - A dictionary that no state needs is dropped. One that fewer than 16 need can be replaced.
//   - Objects above 64 KiB are compressed without a dictionary.
//
// # Figures
//
// Memory per object, everything included (TestMemory), and the time to put a changed state
// (BenchmarkPut); Append takes 1 µs:
//
//	2,000 objects                      size      memory   time
//	Pods of 4 Deployments              4.6 KB    0.6 KB   4 µs
//	Pods of 40 Deployments, mixed      5.2 KB    1.2 KB
//	Pods of 400 Deployments            5.2 KB    1.3 KB
//	Pods without siblings              5.3 KB    1.1 KB   6 µs
//	ConfigMaps that share nothing      2.2 KB    1.6 KB   9 µs
//	3 Pods                             3.8 KB    3.6 KB
//
// The first state of an object that fits no dictionary takes 50 µs. The Pods of a test have
// more random content than most Pods. Nearly identical ones take about 100 bytes, and 80 for
// the state itself.
//
// A store belongs to one goroutine.
package laststate

package kube

import "sync/atomic"

// Furthest is the highest revision that a target has reached, of any resource. Resources can be in
// different etcds, whose revisions do not compare. Its methods may be called concurrently.
type Furthest struct{ revision atomic.Uint64 }

// Note notes the revision of a target, and returns the highest one.
func (f *Furthest) Note(revision uint64) uint64 {
	for {
		highest := f.revision.Load()
		if revision <= highest {
			return highest
		}
		if f.revision.CompareAndSwap(highest, revision) {
			return revision
		}
	}
}

// Forget forgets it: etcd was restored to an older state.
func (f *Furthest) Forget() { f.revision.Store(0) }

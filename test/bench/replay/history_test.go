package replay

import "testing"

func TestHistoryKnowsEveryObjectsLastRevision(t *testing.T) {
	for _, n := range []int{1, 2, 7, 50, 1000} {
		h := newHistory(n)
		last := make(map[int]uint64)
		for rv := uint64(firstRevision + 1); rv <= firstRevision+uint64(3*n+n/2); rv++ {
			last[h.at(rv)] = rv
			if rv < firstRevision+uint64(n) {
				continue
			}
			if len(last) != n {
				t.Fatalf("%d objects: %d of them after %d revisions", n, len(last), n)
			}
			for object, want := range last {
				if got := h.last(object, rv); got != want {
					t.Fatalf("%d objects: object %d at %d has revision %d, want %d", n, object, rv, got, want)
				}
			}
		}
	}
}

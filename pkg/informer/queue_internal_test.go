package informer

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"testing"

	"github.com/informd/informd/pkg/informer/internal/objects"
)

// TestMergedNotificationsLeadToTheState compares what a slow handler knows at the end with the
// objects, and checks that no call contradicts an earlier one.
func TestMergedNotificationsLeadToTheState(t *testing.T) {
	for seed := range uint64(200) {
		random := rand.New(rand.NewPCG(seed, 1))
		q := newQueue(1, true)
		exist, known := map[string]byte{}, map[string]byte{}
		hear := func() bool {
			n, ok := q.take()
			if !ok {
				return false
			}
			switch state, exists := known[n.key]; {
			case exists == (n.action == added):
				t.Fatalf("seed %d: action %d of %s, which the handler knows: %t", seed, n.action, n.key, exists)
			case n.action == deleted:
				delete(known, n.key)
			case exists && state == n.now.Block[0]:
				t.Fatalf("seed %d: %s is told twice", seed, n.key)
			default:
				known[n.key] = n.now.Block[0]
			}
			return true
		}
		for version := range byte(250) {
			key := fmt.Sprint("default/", random.IntN(8))
			_, exists := exist[key]
			switch {
			case !exists:
				exist[key] = version
				q.offer(notification{action: added, key: key, now: objects.Blob{Block: []byte{version}}})
			case random.IntN(2) == 0:
				delete(exist, key)
				q.offer(notification{action: deleted, key: key})
			default:
				exist[key] = version
				q.offer(notification{action: updated, key: key, now: objects.Blob{Block: []byte{version}}})
			}
			if q.order.Len() != len(q.byKey) || len(q.byKey) > 8 {
				t.Fatalf("seed %d: %d keys wait, in %d places", seed, len(q.byKey), q.order.Len())
			}
			if random.IntN(4) == 0 {
				hear()
			}
		}
		for hear() {
			continue
		}
		if !q.empty() || len(q.byKey) > 0 || !maps.Equal(exist, known) {
			t.Fatalf("seed %d: the handler knows %v, want %v", seed, known, exist)
		}
	}
}

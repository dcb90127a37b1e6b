package retention

import (
	"math/rand/v2"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/informd/informd/pkg/journal/jetstream/internal/scan"
)

// TestLevel: at the level all fit, one more byte for each is too much, and a namespace at or
// below the level keeps everything.
func TestLevel(t *testing.T) {
	for seed := range uint64(2000) {
		random := rand.New(rand.NewPCG(seed, 7))
		all := make([]usage, 1+random.IntN(12))
		var bytes, states, most uint64
		for i := range all {
			u := &all[i]
			u.Bytes = random.Uint64N(1 << (1 + random.UintN(40)))
			u.states = random.Uint64N(u.Bytes + 1)
			bytes, states, most = bytes+u.Bytes, states+u.states, max(most, u.Bytes)
		}
		limit := max(bytes-random.Uint64N(bytes/10+1), states)
		goal := goalOf(limit, all)
		if goal > limit || goal < states {
			t.Fatalf("seed %d: goal %d of the limit %d, with %d of states", seed, goal, limit, states)
		}
		at := level(all, goal)
		kept, more := uint64(0), uint64(0)
		for i := range all {
			kept += all[i].keeps(at)
			more += all[i].keeps(at + 1)
			if all[i].Bytes <= at && all[i].keeps(at) != all[i].Bytes || all[i].keeps(at) < all[i].states {
				t.Fatalf("seed %d: of %+v %d bytes stay at the level %d", seed, all[i], all[i].keeps(at), at)
			}
		}
		if kept > goal || at < most && more <= goal && more != kept {
			t.Fatalf("seed %d: %d bytes stay at the level %d, %d above it, the goal is %d", seed, kept, at, more, goal)
		}
	}
}

// TestNamespaceOfSubjects: the namespace comes from the subject. A name is shown as it is or in
// an escaped form, as metrics and terminals take no other.
func TestNamespaceOfSubjects(t *testing.T) {
	c := Census{root: "k8s.test"}
	for subject, want := range map[string]string{
		"k8s.test.core.configmaps.default.a":    "default",
		"k8s.test.rbac.clusterroles._.a_b":      journalClusterScoped,
		"k8s.test.core.configmaps.*.a":          "",
		"k8s.test._informd.synced.core%2Fpods":  "",
		"k8s.test.core.configmaps.a%0A%1Bb.a":   "a%0A%1Bb",
		"k8s.test.core.configmaps.a\xff.a":      `a\xff`,
		"k8s.test._informd.ended.uid%3Adeleted": "",
	} {
		token, _ := c.namespaceOf(scan.Message{Msg: &nats.Msg{Subject: subject}})
		if got := token; got != "" {
			if got = shownNamespace(token); got != want {
				t.Errorf("%s: %q", subject, got)
			}
		} else if want != "" {
			t.Errorf("%s: no namespace", subject)
		}
	}
}

const journalClusterScoped = "(cluster-scoped)"

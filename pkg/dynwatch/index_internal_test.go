package dynwatch

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"runtime"
	"strings"
	"testing"
)

// known is what the reference of the tests below has of an object.
type known struct {
	uid    string
	rv     uint64
	handle handle
}

// TestIndexIsAMap holds the index against a map over random sequences. With every hash
// the same, in one of the runs, all names are in each other's way.
func TestIndexIsAMap(t *testing.T) {
	for name, collide := range map[string]bool{"hashes as they are": false, "few hashes": true} {
		t.Run(name, func(t *testing.T) {
			seed := rand.Uint64()
			t.Logf("seed %d", seed)
			r := rand.New(rand.NewPCG(seed, 1))
			x, want := newIndex(), map[[2]string]known{}
			if collide {
				x.bits = 3
			}
			gone := map[handle]bool{}
			for step := range 20_000 {
				at := [2]string{hostileName(r), hostileName(r)}
				one, there := want[at]
				e := x.get(at[0], at[1])
				if (e != nil) != there || there && (x.of(one.handle) != e || e.rv != one.rv || x.uid(e) != one.uid || !x.isUID(e, one.uid)) {
					t.Fatalf("step %d: %q is %+v in the index, want %+v, %v", step, at, e, one, there)
				}
				switch n := r.IntN(8); {
				case n < 2 && there:
					gone[one.handle] = true
					x.remove(e)
					delete(want, at)
				case n < 2 && step%1000 == 0:
					removeSome(x, want, gone, r)
				case n < 7:
					if there {
						gone[one.handle] = true
					}
					uid := hostileUID(r)
					e := x.put(names{at[0], at[1], uid})
					e.rv = uint64(step)
					want[at] = known{uid, e.rv, x.handle(e)}
				}
				if x.len() != len(want) {
					t.Fatalf("step %d: %d entries, want %d", step, x.len(), len(want))
				}
				if step%500 == 0 {
					sameAsMap(t, x, want, gone)
				}
			}
			sameAsMap(t, x, want, gone)
		})
	}
}

// removeSome removes entries while it goes over all of them.
func removeSome(x *index, want map[[2]string]known, gone map[handle]bool, r *rand.Rand) {
	for e := range x.all() {
		if r.IntN(2) == 0 {
			at := [2]string{x.namespace(e), x.name(e)}
			gone[want[at].handle] = true
			x.remove(e)
			delete(want, at)
		}
	}
}

func sameAsMap(t *testing.T, x *index, want map[[2]string]known, gone map[handle]bool) {
	t.Helper()
	got := map[[2]string]known{}
	for e := range x.all() {
		n := x.names(e)
		got[[2]string{n.namespace, n.name}] = known{n.uid, e.rv, x.handle(e)}
	}
	if !maps.Equal(got, want) {
		t.Fatalf("the index holds %v, want %v", got, want)
	}
	for h := range gone {
		if x.of(h) != nil {
			t.Fatalf("%v still names an entry", h)
		}
	}
}

// hostileName returns one of few names, some of which are the same with a slash
// between other parts, and some large.
func hostileName(r *rand.Rand) string {
	switch r.IntN(10) {
	case 0:
		return ""
	case 1:
		return strings.Repeat("a/", r.IntN(4))
	case 2:
		return strings.Repeat("long", pieceSize/4+r.IntN(2))
	default:
		return fmt.Sprint("n", r.IntN(12))
	}
}

// hostileUID returns UUIDs, as they are and in forms that are not what they are.
func hostileUID(r *rand.Rand) string {
	uuid := fmt.Sprintf("%08x-%04x-%04x-%04x-%012x", r.Uint32(), r.IntN(1<<16), r.IntN(1<<16), r.IntN(1<<16), r.Int64N(1<<48))
	switch r.IntN(6) {
	case 0:
		return strings.ToUpper(uuid)
	case 1:
		return strings.ReplaceAll(uuid, "-", "x")
	case 2:
		return uuid[:35] + "g"
	case 3:
		return "u"
	default:
		return uuid
	}
}

// An event keeps an object's name beyond the object's end: nothing writes over it.
func TestIndexLeavesStringsAlone(t *testing.T) {
	x := newIndex()
	e := x.put(names{"shop", "first", "u"})
	namespace, name, uid := x.namespace(e), x.name(e), x.uid(e)
	x.remove(e)
	for i := range 50_000 { // moves the text several times
		x.remove(x.put(names{"other", fmt.Sprint("another-", i), "v"}))
	}
	if namespace != "shop" || name != "first" || uid != "u" {
		t.Errorf("now it is %q/%q, uid %q", namespace, name, uid)
	}
}

// TestIndexStaysSmall lets a million objects come and go, a thousand at a time.
func TestIndexStaysSmall(t *testing.T) {
	const alive, all = 1000, 1_000_000
	x := newIndex()
	put := func(i int) {
		x.put(names{"shop", podName(i), podUID(i)})
	}
	for i := range alive {
		put(i)
	}
	before := heap()
	for i := alive; i < all; i++ {
		x.remove(x.get("shop", podName(i-alive)))
		put(i)
	}
	grown := int64(heap()) - int64(before)
	runtime.KeepAlive(x)
	if x.len() != alive {
		t.Fatalf("%d entries, want %d", x.len(), alive)
	}
	if most := int64(200 * alive); grown > most {
		t.Errorf("the index has grown by %d bytes, want at most %d", grown, most)
	}
}

// TestIndexSize holds what is remembered of an object to what is promised of it.
func TestIndexSize(t *testing.T) {
	const most = 155
	if got := bytesPerEntry(100_000); got > most {
		t.Errorf("%.0f bytes for each object, want at most %d", got, most)
	}
}

func podName(i int) string { return fmt.Sprintf("web-%08x-%05x", i/40, i) }

func podUID(i int) string { return fmt.Sprintf("7d3b1c5e-90ab-4cde-8f01-%012x", i) }

func heap() uint64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

func bytesPerEntry(n int) float64 {
	before := heap()
	x := newIndex()
	for i := range n {
		x.put(names{fmt.Sprint("team-", i%200), podName(i), podUID(i)})
	}
	after := heap()
	runtime.KeepAlive(x)
	return float64(after-before) / float64(n)
}

func BenchmarkIndex(b *testing.B) {
	const n = 100_000
	x := newIndex()
	all := make([]names, n)
	for i := range all {
		all[i] = names{fmt.Sprint("team-", i%200), podName(i), podUID(i)}
		x.put(all[i])
	}
	b.Run("get", func(b *testing.B) {
		b.ReportAllocs()
		for i := 0; b.Loop(); i++ {
			one := &all[i*7919%n]
			if e := x.get(one.namespace, one.name); e == nil || !x.isUID(e, one.uid) {
				b.Fatal("not there")
			}
		}
	})
	b.Run("come and go", func(b *testing.B) {
		b.ReportAllocs()
		for i := 0; b.Loop(); i++ {
			one := &all[i*7919%n]
			x.remove(x.get(one.namespace, one.name))
			x.put(*one)
		}
	})
	b.ReportMetric(bytesPerEntry(n), "B/object")
}

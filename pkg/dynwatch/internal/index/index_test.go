package index

import (
	"cmp"
	"fmt"
	"maps"
	"math/rand/v2"
	"runtime"
	"strings"
	"testing"
)

// known is what the reference of the tests below has of an object.
type known struct {
	uid string
	rv  uint64
}

// TestIndexIsAMap holds the index against a map over random sequences. With every hash
// the same, in one of the runs, all names are in each other's way.
func TestIndexIsAMap(t *testing.T) {
	for name, collide := range map[string]bool{"hashes as they are": false, "few hashes": true} {
		t.Run(name, func(t *testing.T) {
			seed := rand.Uint64()
			t.Logf("seed %d", seed)
			r := rand.New(rand.NewPCG(seed, 1))
			x, want := New(), map[[2]string]known{}
			if collide {
				x.bits = 3
			}
			for step := range 20_000 {
				at := [2]string{hostileName(r), hostileName(r)}
				one, there := want[at]
				e := x.Get(at[0], at[1])
				if (e != nil) != there || there && (e.RV != one.rv || x.UID(e) != one.uid || !x.IsUID(e, one.uid)) {
					t.Fatalf("step %d: %q is %+v in the index, want %+v, %v", step, at, e, one, there)
				}
				switch n := r.IntN(8); {
				case n < 2 && there:
					x.Remove(e)
					delete(want, at)
				case n < 2 && step%1000 == 0:
					removeSome(x, want, r)
				case n < 7:
					uid := hostileUID(r)
					e := x.Put(ID{at[0], at[1], uid})
					e.RV = uint64(step)
					want[at] = known{uid, e.RV}
				}
				if x.Len() != len(want) {
					t.Fatalf("step %d: %d entries, want %d", step, x.Len(), len(want))
				}
				if step%500 == 0 {
					sameAsMap(t, x, want)
				}
			}
			sameAsMap(t, x, want)
		})
	}
}

// removeSome removes entries while it goes over all of them.
func removeSome(x *Index, want map[[2]string]known, r *rand.Rand) {
	for e := range x.All() {
		if r.IntN(2) == 0 {
			at := [2]string{x.Namespace(e), x.Name(e)}
			x.Remove(e)
			delete(want, at)
		}
	}
}

func sameAsMap(t *testing.T, x *Index, want map[[2]string]known) {
	t.Helper()
	got := map[[2]string]known{}
	for e := range x.All() {
		n := x.ID(e)
		got[[2]string{n.Namespace, n.Name}] = known{n.UID, e.RV}
	}
	if !maps.Equal(got, want) {
		t.Fatalf("the index holds %v, want %v", got, want)
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
	switch r.IntN(8) {
	case 0:
		return strings.ToUpper(uuid)
	case 1:
		return strings.ReplaceAll(uuid, "-", "x")
	case 2:
		return uuid[:35] + "g"
	case 3:
		return "u"
	case 4: // one more hyphen, in the place of a digit
		at := r.IntN(len(uuid))
		return uuid[:at] + "-" + uuid[at+1:]
	default:
		return uuid
	}
}

// FuzzUID has objects with any UID: an aggregated API server may bring them.
func FuzzUID(f *testing.F) {
	for _, uid := range []string{
		"u", "7d3b1c5e-90ab-4cde-8f01-123456789abc", "7D3B1C5E-90AB-4CDE-8F01-123456789ABC",
		"12345678-1234-1234-1234-12-123456789", "12345678-1234-1234-1234-12345678901-",
		"-1234567-1234-1234-1234-123456789012", "12345678--234-1234-1234-123456789012",
	} {
		f.Add(uid)
	}
	f.Fuzz(func(t *testing.T, uid string) {
		uid = cmp.Or(uid, "u") // objects without one never come here
		x := New()
		e := x.Put(ID{"shop", "web", uid})
		if got := x.UID(e); got != uid || !x.IsUID(e, uid) {
			t.Errorf("the index holds UID %q as %q", uid, got)
		}
	})
}

// An event keeps an object's name beyond the object's end: nothing writes over it.
func TestIndexLeavesStringsAlone(t *testing.T) {
	x := New()
	e := x.Put(ID{"shop", "first", "u"})
	namespace, name, uid := x.Namespace(e), x.Name(e), x.UID(e)
	x.Remove(e)
	for i := range 50_000 { // moves the text several times
		x.Remove(x.Put(ID{"other", fmt.Sprint("another-", i), "v"}))
	}
	if namespace != "shop" || name != "first" || uid != "u" {
		t.Errorf("now it is %q/%q, uid %q", namespace, name, uid)
	}
}

// TestIndexSize holds what is remembered of an object to what is promised of it.
func TestIndexSize(t *testing.T) {
	const most = 100
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
	x := New()
	for i := range n {
		x.Put(ID{fmt.Sprint("team-", i%200), podName(i), podUID(i)})
	}
	after := heap()
	runtime.KeepAlive(x)
	return float64(after-before) / float64(n)
}

func BenchmarkIndex(b *testing.B) {
	const n = 100_000
	x := New()
	all := make([]ID, n)
	for i := range all {
		all[i] = ID{fmt.Sprint("team-", i%200), podName(i), podUID(i)}
		x.Put(all[i])
	}
	b.Run("get", func(b *testing.B) {
		b.ReportAllocs()
		for i := 0; b.Loop(); i++ {
			one := &all[i*7919%n]
			if e := x.Get(one.Namespace, one.Name); e == nil || !x.IsUID(e, one.UID) {
				b.Fatal("not there")
			}
		}
	})
	b.Run("come and go", func(b *testing.B) {
		b.ReportAllocs()
		for i := 0; b.Loop(); i++ {
			one := &all[i*7919%n]
			x.Remove(x.Get(one.Namespace, one.Name))
			x.Put(*one)
		}
	})
	b.ReportMetric(bytesPerEntry(n), "B/object")
}
